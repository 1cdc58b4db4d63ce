package suite

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

var orderCases = []testCase{
	{"a stop request reaches the holder", nil, stopReaches},
	{"a stop request for another run changes nothing", nil, stopForAnother},
	{"a stop request while the record is lost", hasDeleteRecord, stopUnrecorded},
	{"a watch tells of a stop request", nil, watchTellsStop},
	{"a run is not revoked while its record is lost", hasDeleteRecord, revokeUnrecorded},
	{"a revoked run leaves a silence of its own", nil, revokedSilence},
	{"an order that is overtaken is decided anew", comesBetween, overtakenOrder},
	{"a dead holder's job is free at once", nil, declaredDead},
	{"a forgotten job keeps its token", nil, forgottenJob},
	{"a lost reply of an order costs nothing", nil, lostOrder},
	{"orders about an unknown job", nil, ordersUnknown},
}

func (l lossy) Order(ctx context.Context, o backends.Order) error {
	if err := l.Backend.Order(ctx, o); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// newOrder returns an order for the case's job.
func (s *scene) newOrder(kind backends.OrderKind, token int64) backends.Order {
	return backends.Order{
		Job: s.job, Kind: kind, Token: token, Reason: "a reason, ä|{}\n",
		By: backends.Holder{ID: NewID(), Host: "desk", PID: 815, User: "jo"},
	}
}

const joSays = "broken by jo on desk: a reason, ä|{}\n"

func (s *scene) give(d backends.Backend, o backends.Order) error {
	s.Helper()
	return d.Order(s.Context(), o)
}

func (s *scene) ordered(d backends.Backend, o backends.Order) {
	s.Helper()
	if err := s.give(d, o); err != nil {
		s.Fatalf("%s: %v", o.Kind, err)
	}
}

// over gives an order that comes too late, or for another run.
func (s *scene) over(d backends.Backend, o backends.Order) {
	s.Helper()
	s.untouched(d, string(o.Kind), func() {
		if err := s.give(d, o); !errors.Is(err, backends.ErrOver) {
			s.Errorf("%s: %v, want ErrOver", o.Kind, err)
		}
	})
}

// denied gives an order that is not safe.
func (s *scene) denied(d backends.Backend, o backends.Order, want backends.Verdict) {
	s.Helper()
	s.untouched(d, string(o.Kind), func() {
		err := s.give(d, o)
		if r, ok := errors.AsType[*backends.Refusal](err); !ok || r.Verdict != want {
			s.Errorf("%s: %v, want a refusal: %s", o.Kind, err, want)
		}
	})
}

// locked says whether nothing takes a lease of this store from who holds it, and checks that an order does not.
func (s *scene) locked(d backends.Backend, o backends.Order) bool {
	s.Helper()
	if d.Limits().LocalHolders == nil {
		return false
	}
	s.untouched(d, string(o.Kind), func() {
		err := s.give(d, o)
		if !backends.IsPermanent(err) {
			s.Errorf("%s of a lock that is held: %v, want a *PermanentError", o.Kind, err)
		}
	})
	return true
}

func (s *scene) wantNote(d backends.Backend, g backends.Grant, state backends.State) {
	s.Helper()
	for _, run := range s.inspect(d, s.job).Record.Runs {
		if run.Token == g.Token {
			if run.State != state || run.Note != joSays {
				s.Errorf("history: %s, %q; want %s, %q", run.State, run.Note, state, joSays)
			}
			return
		}
	}
	s.Errorf("the history does not know the run of token %d", g.Token)
}

func stopReaches(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, s.claim())
	o := s.newOrder(backends.Stop, g.Token)
	s.ordered(other, o)
	for range 2 {
		signal := s.Renew(d, g)
		if signal.Break == nil {
			s.Fatal("a renewal does not carry the request")
		}
		if signal.Break.At == 0 {
			s.Error("the request does not say when it was made")
		}
		want := backends.BreakRequest{Token: g.Token, By: o.By, Reason: o.Reason, At: signal.Break.At}
		if diff := cmp.Diff(want, *signal.Break); diff != "" {
			s.Errorf("request (-want +got):\n%s", diff)
		}
	}
	s.refusal(other, s.claim(), backends.Held)
	s.FinishAs(d, g, backends.Outcome{State: backends.Stopped, Exit: 143})
	s.wantNote(other, g, backends.Stopped)
	s.over(other, s.newOrder(backends.Stop, g.Token))

	next := s.granted(other, s.claim())
	if signal := s.Renew(other, next); signal.Break != nil {
		s.Errorf("the next run is told to stop too: %+v", *signal.Break)
	}
	s.FinishAs(other, next, backends.Outcome{State: backends.Stopped})
	if note := s.inspect(d, s.job).Record.Runs[0].Note; note != "" {
		s.Errorf("the next run is noted as broken too: %q", note)
	}
}

func stopForAnother(s *scene) {
	d, other := s.open(), s.open()
	old := s.granted(d, s.claim())
	s.Finish(d, old)
	g := s.granted(d, s.claim())
	for _, token := range []int64{old.Token, g.Token - 1, g.Token + 1} {
		for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke, backends.ForceRelease} {
			s.over(other, s.newOrder(kind, token))
		}
	}
	if signal := s.Renew(d, g); signal.Break != nil {
		s.Errorf("a run is told to stop with a request for another one: %+v", *signal.Break)
	}
	s.Finish(d, g)
}

// stopUnrecorded: a request must not keep the holder from writing its record anew, or its tick would run again.
func stopUnrecorded(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withTick(s.claim(), s.tick(1)))
	s.h.DeleteRecord(s.T, s.job)
	s.ordered(other, s.newOrder(backends.Stop, g.Token))
	if signal := s.Renew(d, g); signal.Break == nil {
		s.Error("a renewal does not carry the request")
	}
	if r := s.inspect(other, s.job).Record; r.Token != g.Token || r.Tick.Tick != s.tick(1) {
		s.Errorf("record %s", s.text(r))
	}
	s.FinishAs(d, g, backends.Outcome{State: backends.Stopped})
	s.refusal(other, withTick(s.claim(), s.tick(1)), backends.IsStopped)
}

// watchTellsStop: a holder that only looks when it is woken hears of the request.
func watchTellsStop(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, s.claim())
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	woken := s.watching(ctx, d)
	s.ordered(other, s.newOrder(backends.Stop, g.Token))
	for late := time.After(patience); ; {
		select {
		case _, open := <-woken:
			if !open {
				s.Fatal("the watch broke")
			}
		case <-late:
			s.Fatalf("not woken for %v after a request to stop", patience)
		}
		if s.Renew(d, g).Break != nil {
			break
		}
	}
	s.FinishAs(d, g, backends.Outcome{State: backends.Stopped})
}

// revoked: the lease is taken away from a live holder. It hears so at once, and nobody else is granted before it must
// have stopped, whether it hears or not.
func revoked(s *scene) {
	for {
		d, other := s.open(), s.open()
		asked := time.Now()
		g := s.granted(d, withTick(s.brief(), s.tick(1)))
		if s.locked(other, s.newOrder(backends.Revoke, g.Token)) {
			s.Renew(d, g)
			s.Finish(d, g)
			s.over(other, s.newOrder(backends.Revoke, g.Token))
			return
		}
		time.Sleep(g.TTL / 4)
		sent := time.Now()
		_, err := d.Renew(s.Context(), g)
		orderErr := s.give(other, s.newOrder(backends.Revoke, g.Token))
		if took := time.Since(asked); took > 3*g.TTL/4 { // this machine slept
			s.onceMore("revoke a lease of ", g.TTL, ": ", took, ", ", err, ", ", orderErr)
			continue
		}
		if err := errors.Join(err, orderErr); err != nil {
			s.Fatalf("a renewal, and then revoke: %v", err)
		}
		if s.revokedRun(d, other, g, sent) {
			return
		}
		s.onceMore("claim within a lease of ", g.TTL)
	}
}

// revokedRun says whether the next claim came early enough to be let wait.
func (s *scene) revokedRun(d, other backends.Backend, g backends.Grant, sent time.Time) bool {
	s.Helper()
	s.tooLate("Renew of a revoked holder", func() error { _, err := d.Renew(s.Context(), g); return err })
	s.untouched(other, "Finish of a revoked holder", func() {
		s.tooLate("Finish of a revoked holder", func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) })
	})
	s.wantNote(other, g, backends.Stopped)
	tombstone := s.inspect(other, s.job).Record.Token
	s.over(other, s.newOrder(backends.Revoke, g.Token))
	s.over(other, s.newOrder(backends.ForceRelease, g.Token))
	early := time.Since(sent) < g.TTL-2*slack
	next := s.after(other, withTick(s.claim(), s.tick(2)))
	if life := time.Since(sent); life < g.TTL-slack {
		s.Errorf("somebody else was granted %v after a renewal, want at least %v", life, g.TTL)
	}
	if tombstone <= g.Token || next.Token <= tombstone {
		s.Errorf("tokens %d, %d, %d of the run, its tombstone and the next run: want them to grow", g.Token, tombstone, next.Token)
	}
	s.untouched(other, "Finish of a revoked holder after the next grant", func() {
		s.tooLate("Finish", func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) })
	})
	s.Finish(other, next)
	s.refusal(d, withTick(s.claim(), s.tick(1)), backends.IsStopped)
	return early
}

// revokedSilence: the holder's silence may have been counted for long. Where death is proved by silence, it begins anew with the order.
func revokedSilence(s *scene) {
	d, other := s.open(), s.open()
	g, c := s.granted(d, s.claim()), s.claim()
	if s.locked(other, s.newOrder(backends.Revoke, g.Token)) {
		s.Finish(d, g)
		return
	}
	c.Seen = s.refusal(other, c, backends.Held).Seen
	c.Seen.For = time.Hour
	s.ordered(other, s.newOrder(backends.Revoke, g.Token))
	r := s.Refused(other, c, backends.Vanished)
	if r.Wait <= 0 || r.Wait > g.TTL || r.Token <= g.Token {
		s.Errorf("vanished for %v with token %d, want at most %v and more than %d", r.Wait, r.Token, g.TTL, g.Token)
	}
	if !d.Limits().BySilence {
		return
	}
	if r.Wait != g.TTL || r.Seen.Token != r.Token || r.Seen.Beat <= c.Seen.Beat {
		s.Errorf("waits for %v and is shown %+v after %+v, want %v and another beat", r.Wait, r.Seen, c.Seen, g.TTL)
	}
	c.Seen = r.Seen
	c.Seen.For = g.TTL
	s.Finish(other, s.granted(other, c))
}

// overtakenOrder: what comes between the two steps of an order is neither lost nor overlooked.
func overtakenOrder(s *scene) {
	other, late := s.open(), s.open().(*backends.Engine)
	decide, comes := late.Rules.Order, func() {}
	late.Rules.Order = func(v backends.View, o backends.Order) backends.OrderDecision {
		d, f := decide(v, o), comes
		comes = func() {}
		f()
		return d
	}
	for _, meanwhile := range []struct {
		what string
		do   func(g backends.Grant)
		over bool
	}{
		{"a renewal", func(g backends.Grant) { s.Renew(other, g) }, false},
		{"a candidate's note", func(backends.Grant) { s.refusal(other, withTick(s.claim(), s.tick(1)), backends.Held) }, false},
		{"the end", func(g backends.Grant) { s.Finish(other, g) }, true},
		{"the next run", func(g backends.Grant) { s.Finish(other, g); s.granted(other, s.claim()) }, true},
	} {
		s.job = s.otherJob().Job
		g := s.granted(other, s.claim())
		comes = func() { meanwhile.do(g) }
		err := s.give(late, s.newOrder(backends.Revoke, g.Token))
		if meanwhile.over != errors.Is(err, backends.ErrOver) || !meanwhile.over && err != nil {
			s.Errorf("%s: %v, want that it comes too late: %v", meanwhile.what, err, meanwhile.over)
		}
		status := s.inspect(other, s.job)
		if meanwhile.what == "the next run" != (status.Lease != nil) || meanwhile.what == "a candidate's note" && status.Record.Passed != s.tick(1) {
			s.Errorf("%s: %s, record %s", meanwhile.what, leaseText(status.Lease), s.text(status.Record))
		}
	}
}

// revokeUnrecorded: with its lease the holder would lose the means to say which tick it runs, and it would run again.
func revokeUnrecorded(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withTick(s.claim(), s.tick(1)))
	s.h.DeleteRecord(s.T, s.job)
	o := s.newOrder(backends.Revoke, g.Token)
	if err := s.give(other, o); !errors.Is(err, backends.ErrLags) {
		s.Fatalf("revoke: %v, want ErrLags", err)
	}
	s.Renew(d, g)
	if s.locked(other, o) {
		s.FinishAs(d, g, backends.Outcome{State: backends.Stopped})
	} else {
		s.ordered(other, o)
		s.ordered(other, s.newOrder(backends.ForceRelease, s.inspect(other, s.job).Record.Token)) // the tombstone: nobody waits
	}
	s.refusal(other, withTick(s.claim(), s.tick(1)), backends.IsStopped)
}

// declaredDead: the operator answers for it, and nobody waits.
func declaredDead(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withTick(s.claim(), s.tick(1)))
	if s.locked(other, s.newOrder(backends.ForceRelease, g.Token)) {
		s.expire(g)
	}
	s.ordered(other, s.newOrder(backends.ForceRelease, g.Token))
	s.wantNote(other, g, backends.Lost)
	next, err := other.Acquire(s.Context(), withTick(s.claim(), s.tick(2)))
	if err != nil {
		s.Fatalf("Acquire after the holder was declared dead: %v", err)
	}
	if next.Token <= g.Token {
		s.Errorf("token %d after %d", next.Token, g.Token)
	}
	s.tooLate("Renew of a dead holder", func() error { _, err := d.Renew(s.Context(), g); return err })
	s.tooLate("Finish of a dead holder", func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) })
	s.Renew(other, next)
	s.Finish(other, next)
	s.refusal(d, withTick(s.claim(), s.tick(1)), backends.IsLost)
}
