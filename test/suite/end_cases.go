package suite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func lostFinish(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withTick(s.claim(), s.tick(1)))
	s.loses("Finish", lossy{d}.Finish(s.Context(), g, backends.Outcome{State: backends.Done}))
	s.untouched(other, "the same Finish again", func() { s.Finish(d, g) })
	next := s.granted(other, withTick(s.claim(), s.tick(2)))
	s.untouched(other, "the same Finish after the next grant", func() { s.Finish(d, g) })
	s.Renew(other, next)
	s.Finish(other, next)
	s.untouched(other, "the same Finish after the next run", func() { s.Finish(d, g) })
}

func staleFinish(s *scene) {
	d, other := s.open(), s.open()
	old := s.granted(d, withTick(s.brief(), s.tick(1)))
	s.expire(old)
	g := s.after(other, withTick(s.claim(), s.tick(2)))
	for _, stale := range append(forged(g), old) {
		for _, d := range []backends.Backend{d, other} {
			s.untouched(other, "a stale Finish", func() {
				s.tooLate("stale Finish", func() error { return d.Finish(s.Context(), stale, backends.Outcome{State: backends.Done}) })
			})
		}
	}
	s.Renew(other, g)
	s.Finish(other, g)
}

func staleAbandon(s *scene) {
	d, other := s.open(), s.open()
	old := withTick(s.brief(), s.tick(1))
	s.expire(s.granted(d, old))
	g := s.after(other, withTick(s.claim(), s.tick(2)))
	before := s.inspect(other, s.job)
	s.abandon(d, old)
	s.abandon(other, s.claim())
	after := s.inspect(other, s.job)
	before.Record.Refused, after.Record.Refused = nil, nil
	if was, is := s.text(before.Record), s.text(after.Record); was != is || leaseText(before.Lease) != leaseText(after.Lease) {
		s.Errorf("before:\n%s\n%s\nafter:\n%s\n%s", was, leaseText(before.Lease), is, leaseText(after.Lease))
	}
	s.Renew(other, g)
	s.Finish(other, g)
}

func finishAfterVanish(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withTick(s.claim(), s.tick(1)))
	s.h.DeleteLease(s.T, s.job)
	s.Finish(d, g)
	s.untouched(other, "the same Finish again", func() { s.Finish(d, g) })
	s.refusal(other, withTick(s.claim(), s.tick(1)), backends.IsDone)
	next, err := other.Acquire(s.Context(), s.claim())
	if err != nil {
		s.Fatalf("Acquire after Finish: %v", err)
	}
	s.Finish(other, next)
}

func finishTooLate(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withTick(s.brief(), s.tick(1)))
	s.h.DeleteLease(s.T, s.job)
	next := s.after(other, withTick(s.claim(), s.tick(2)))
	s.untouched(other, "Finish after somebody else was granted", func() {
		s.tooLate("Finish", func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) })
	})
	s.Finish(other, next)
	s.untouched(other, "Finish after somebody else has finished", func() {
		s.tooLate("Finish", func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) })
	})
}

func abandonApplied(s *scene) {
	d, other := s.open(), s.open()
	s.Finish(d, s.granted(d, s.claim())) // no quarantine from here on
	c := withTick(s.claim(), s.tick(1))
	_, err := lossy{d}.Acquire(s.Context(), c)
	s.loses("Acquire", err)
	s.loses("Abandon", lossy{d}.Abandon(s.Context(), c))
	s.abandon(d, c)
	s.refusal(d, c, backends.Abandoned)
	g := s.granted(other, withTick(s.claim(), s.tick(1)))
	if g.Tick != c.Tick || g.Attempt != 1 {
		s.Errorf("tick %d, attempt %d; want %d, 1", g.Tick, g.Attempt, c.Tick)
	}
	s.abandon(d, c)
	s.Renew(other, g)
	s.Finish(other, g)
	s.refusal(d, c, backends.Abandoned)
}

func abandonDelayed(s *scene) {
	d, other := s.open(), s.open()
	c := withTick(s.claim(), s.tick(1))
	s.abandon(d, c)
	s.refusal(d, c, backends.Abandoned)
	s.refusal(other, c, backends.Abandoned)
	g := s.granted(other, withTick(s.claim(), s.tick(1)))
	if g.Attempt != 1 {
		s.Errorf("attempt %d, want 1", g.Attempt)
	}
	s.Finish(other, g)
}

// claimInFlight: the last step of a claim arrives after it was taken back, and more others after it than a record remembers. It compares
// what its own withdrawal has rewritten.
func claimInFlight(s *scene) {
	other, late := s.open(), s.open().(*backends.Engine)
	decide, arrives := late.Rules.Claim, false
	late.Rules.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		d := decide(v, c)
		if arrives { // it was not written, and nobody waits for it any more
			return backends.ClaimDecision{Record: v.Record, Refusal: &backends.Refusal{Verdict: backends.Abandoned}}
		}
		if arrives = d.Grant != nil; arrives {
			s.abandon(other, c)
			for range backends.KeptAbandoned + 1 {
				s.abandon(other, s.claim())
			}
		}
		return d
	}
	for n := range int64(2) { // of a job without a record, and of one that has run
		arrives = false
		s.refusal(late, withTick(s.claim(), s.tick(n)), backends.Abandoned)
		g := s.granted(other, withTick(s.claim(), s.tick(n)))
		if g.Tick != s.tick(n) || g.Attempt != 1 || len(g.Lost) != 0 {
			s.Errorf("tick %d, attempt %d, lost %+v; want %d, 1, nothing", g.Tick, g.Attempt, g.Lost, s.tick(n))
		}
		s.Finish(other, g)
	}
}

func abandonVanished(s *scene) {
	d, other := s.open(), s.open()
	c := withTick(s.claim(), s.tick(1))
	s.granted(d, c)
	s.h.DeleteLease(s.T, s.job)
	s.abandon(d, c)
	g, err := other.Acquire(s.Context(), withTick(s.claim(), s.tick(1)))
	if err != nil {
		s.Fatalf("Acquire after Abandon: %v", err)
	}
	if g.Tick != c.Tick || g.Attempt != 1 {
		s.Errorf("tick %d, attempt %d; want %d, 1", g.Tick, g.Attempt, c.Tick)
	}
	s.Finish(other, g)
	s.refusal(d, c, backends.Abandoned)
}

// restarted: a server that comes back with its data.
func restarted(s *scene) { s.afterForgetting(s.h.Restart) }

// emptied: a server that forgets everything while it runs.
func emptied(s *scene) { s.afterForgetting(s.h.Empty) }

// restartedEmpty: a server that comes back without its data.
func restartedEmpty(s *scene) { s.afterForgetting(s.h.RestartEmpty) }

// afterForgetting: whatever the server has kept, nobody is granted while a holder lives, and tokens grow.
func (s *scene) afterForgetting(forget func(testing.TB)) {
	d, other := s.open(), s.open()
	g := s.granted(d, s.brief())
	sent := time.Now()
	if _, err := d.Renew(s.Context(), g); err != nil && !errors.Is(err, backends.ErrLost) {
		s.Fatalf("Renew: %v", err)
	} else if err != nil {
		sent = time.Time{} // this machine slept
	}
	forget(s.T)
	waits := s.expire(g)
	next := s.after(other, s.claim())
	if life := time.Since(sent); waits && life < g.TTL-slack {
		s.Errorf("somebody else was granted %v after a renewal, want at least %v", life, g.TTL)
	}
	if next.Token <= g.Token {
		s.Errorf("token %d after %d", next.Token, g.Token)
	}
	s.wantLostAtLast(d, g)
	s.Renew(other, next)
	s.Finish(other, next)
	last := s.granted(other, s.claim())
	if last.Token <= next.Token {
		s.Errorf("token %d after %d", last.Token, next.Token)
	}
	s.Finish(other, last)
}

// wantLostAtLast renews until the store answers: a client may need a moment to find its server again.
func (s *scene) wantLostAtLast(d backends.Backend, g backends.Grant) {
	s.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		_, err := d.Renew(ctx, g)
		cancel()
		if errors.Is(err, backends.ErrLost) {
			return
		}
		if err == nil || time.Now().After(end) {
			s.Fatalf("Renew of a superseded grant: %v, want ErrLost", err)
		}
	}
}
