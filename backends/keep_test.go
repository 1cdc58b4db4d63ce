package backends_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

func TestAgain(t *testing.T) {
	s := newStore()
	s.sleep(10 * time.Minute)
	g := grant(t, s, rerun(forTick("a", 1)))
	s.sleep(5 * time.Second)
	again := grant(t, s, rerun(forTick("a", 1)))
	if diff := cmp.Diff(g, again); diff != "" {
		t.Errorf("the repeated claim is answered differently:\n%s", diff)
	}
	if want := s.now.Add(ttl).UnixMilli(); s.record.Until != want || s.record.Beat != 2 {
		t.Errorf("until %d, beat %d; want %d, 2", s.record.Until, s.record.Beat, want)
	}
	s.sleep(ttl)
	g = grant(t, s, rerun(forTick("b", 2))) // answered with the unfinished one
	if again := grant(t, s, rerun(forTick("b", 2))); again.Tick != tick(1) || again.Attempt != 2 || again.Token != g.Token {
		t.Errorf("%+v, want tick %d, attempt 2, token %d", again, tick(1), g.Token)
	}

	// The record was lost: the lease says who has it, and the claim what for.
	s.record = backends.Record{}
	again = grant(t, s, rerun(forTick("b", 2)))
	if again.Token != g.Token || s.record.Token != g.Token || s.record.Tick.Tick != tick(2) || s.record.Tick.State != backends.Claimed {
		t.Errorf("%+v, %+v", again, s.record)
	}
}

func TestRenew(t *testing.T) {
	s := newStore()
	g := grant(t, s, by("a"))
	s.record.Break = &backends.BreakRequest{Token: g.Token + 1}
	if r := s.renew(g); r.Lost || r.Answer.Break != nil || r.Record.Beat != 2 {
		t.Errorf("%+v", r)
	}
	s.record.Break.Token = g.Token
	if r := s.renew(g); r.Answer.Break == nil {
		t.Errorf("%+v", r)
	}
	for _, stale := range []backends.Grant{{Claim: by("b"), Token: g.Token, TTL: ttl}, {Claim: by("a"), Token: g.Token - 1, TTL: ttl}} {
		if r := s.renew(stale); !r.Lost {
			t.Errorf("%+v renews the lease of %+v", stale, g)
		}
	}
	s.record = backends.Record{}
	if r := s.renew(g); r.Lost || r.Record.Token != g.Token || r.Record.Free() || r.Record.Job != "job" {
		t.Errorf("a lost record is not restored: %+v", r)
	}
	if r := s.renew(g); r.Record.Beat <= 2 {
		t.Errorf("beat %d comes again: a candidate saw it before the record was lost", r.Record.Beat)
	}
	for _, c := range []backends.Claim{forTick("c", 5), {Job: "job", Holder: by("c").Holder, TTL: ttl, Trigger: backends.Trigger{Once: "key", OnLost: backends.Skip, MaxAttempts: 1}}} {
		s := newStore()
		s.sleep(time.Hour)
		g := grant(t, s, c)
		s.record = backends.Record{}
		s.renew(g)
		s.finish(g, backends.Done)
		c.Holder.ID = "d"
		if d := s.acquire(c); d.Refusal == nil || d.Refusal.Verdict != backends.IsDone {
			t.Errorf("%+v: what ran while its record was lost is granted again: %+v", c.Trigger, d.Grant)
		}
	}
	s.sleep(ttl)
	if r := s.renew(g); !r.Lost {
		t.Errorf("an expired lease is renewed: %+v", r)
	}
}

func TestFinish(t *testing.T) {
	s := newStore()
	s.sleep(10 * time.Minute)
	g := grant(t, s, forTick("a", 1))
	s.vanish()
	if e := s.finish(backends.Grant{Claim: by("b"), Token: g.Token, TTL: ttl}, backends.Done); !e.Lost || e.Changed {
		t.Errorf("another holder ends the run: %+v", e)
	}
	if e := s.finish(g, backends.Done); e.Lost || !e.Changed || e.Release || !s.record.Free() {
		t.Errorf("after the lease vanished: %+v", e)
	}
	if e := s.finish(g, backends.Failed); e.Lost || e.Changed || s.record.Tick.State != backends.Done {
		t.Errorf("asked again: %+v", e)
	}
	next := grant(t, s, forTick("b", 2))
	if e := s.finish(g, backends.Done); e.Lost || e.Changed {
		t.Errorf("asked again after the next grant: %+v", e)
	}
	s.sleep(ttl)
	last := grant(t, s, forTick("c", 3))
	if e := s.finish(next, backends.Done); !e.Lost || e.Changed {
		t.Errorf("after somebody else was granted: %+v", e)
	}
	if s.record.Runs[1].State != backends.Lost || s.record.Tick.Tick != tick(3) {
		t.Errorf("%+v", s.record)
	}
	s.record.Break = &backends.BreakRequest{Token: last.Token}
	if e := s.finish(last, backends.Stopped); e.Lost || !e.Release || s.record.Break != nil || s.record.Ended == 0 {
		t.Errorf("%+v", e)
	}
	if run := s.record.Runs[0]; run.State != backends.Stopped || run.Exit != 1 || run.Ended == 0 {
		t.Errorf("%+v", run)
	}

	// The record was lost while the lease is valid.
	g = grant(t, s, by("d"))
	s.record = backends.Record{}
	if e := s.finish(g, backends.Done); e.Lost || !e.Release || s.record.Token != g.Token || !s.record.Free() {
		t.Errorf("after the record was lost: %+v", e)
	}
}

// What is left of a run may be its token alone, as a lock of Consul whose session has ended tells it. Its tick is not started
// again after it ended.
func TestFinishRestoresARunOfWhichOnlyTheTokenIsKnown(t *testing.T) {
	s := newStore()
	g := grant(t, s, forTick("a", 1))
	s.vanish()
	s.record = backends.Record{Job: s.record.Job, Token: g.Token, Holder: g.Claim.Holder}
	if e := s.finish(g, backends.Lost); e.Lost || s.record.Tick.Tick != tick(1) || s.record.Tick.State != backends.Lost {
		t.Errorf("%+v", s.record)
	}
	if d := s.acquire(forTick("b", 1)); d.Refusal == nil || d.Refusal.Verdict != backends.IsLost {
		t.Errorf("the tick is granted again: %+v", d.Grant)
	}
}

func TestHistoryIsCapped(t *testing.T) {
	s := newStore()
	for i := range backends.KeptRuns + 5 {
		ran(t, s, by(fmt.Sprint("h", i)), backends.Done)
	}
	if n := len(s.record.Runs); n != backends.KeptRuns || s.record.Runs[0].Holder.ID != fmt.Sprint("h", n+4) {
		t.Errorf("%d runs are kept, the newest of %s", n, s.record.Runs[0].Holder.ID)
	}
}

// The suite shows what becomes of a claim that is taken back. Of a second attempt there remains the loss of the first one.
func TestAbandonOfASecondAttempt(t *testing.T) {
	s := newStore()
	s.sleep(10 * time.Minute)
	died(t, s, rerun(forTick("a", 1)))
	second := rerun(forTick("b", 1))
	if g := grant(t, s, second); g.Attempt != 2 {
		t.Errorf("attempt %d, want 2", g.Attempt)
	}
	s.vanish()
	s.abandon(second)
	if s.record.Tick.State != backends.Lost || s.record.Tick.Attempt != 1 {
		t.Errorf("%+v", s.record.Tick)
	}
}
