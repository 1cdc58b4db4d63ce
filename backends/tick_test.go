package backends_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func TestTicks(t *testing.T) {
	lostTick := []backends.Occurrence{{Tick: tick(1), State: backends.Lost}}
	runScenes(t, []scene{
		{name: "the first tick", claim: forTick("a", 1), tick: 1},
		{name: "a later tick", before: after(backends.Done, forTick("a", 1)), claim: forTick("b", 2), tick: 2},
		{name: "done", before: after(backends.Done, forTick("a", 1)), claim: forTick("b", 1), verdict: backends.IsDone, holder: "a", tick: 1},
		{name: "failed", before: after(backends.Failed, forTick("a", 1)), claim: rerun(forTick("b", 1)), verdict: backends.IsFailed, holder: "a"},
		{name: "stopped, skip", before: after(backends.Stopped, forTick("a", 1)), claim: forTick("b", 1), verdict: backends.IsStopped, holder: "a"},
		{name: "lost, skip", before: after(backends.Lost, forTick("a", 1)), claim: forTick("b", 1), verdict: backends.IsLost, holder: "a"},
		{name: "open", before: after(backends.Open, forTick("a", 1)), claim: forTick("b", 1), tick: 1},
		{name: "open, a later tick", before: after(backends.Open, forTick("a", 1)), claim: rerun(forTick("b", 2)), tick: 2},
		{name: "vanished, skip", before: afterDeath(forTick("a", 1)), claim: forTick("b", 1), verdict: backends.IsLost, holder: "a", first: true},
		{
			name: "vanished, told once", claim: forTick("c", 1), verdict: backends.IsLost, holder: "a",
			before: func(t *testing.T, s *store) {
				died(t, s, forTick("a", 1))
				s.acquire(forTick("b", 1))
			},
		},
		{name: "vanished, a later tick", before: afterDeath(forTick("a", 1)), claim: forTick("b", 2), tick: 2, lost: lostTick},
		{
			name: "vanished, the later claim reruns, the recorded one skips", before: afterDeath(forTick("a", 1)),
			claim: rerun(forTick("b", 2)), tick: 2, lost: lostTick,
		},
		{
			name: "vanished, the later claim skips, the recorded one reruns", before: afterDeath(rerun(forTick("a", 1))),
			claim: forTick("b", 2), tick: 2, lost: lostTick,
		},
		{name: "vanished, rerun", before: afterDeath(rerun(forTick("a", 1))), claim: rerun(forTick("b", 1)), tick: 1, attempt: 2},
		{
			name: "vanished, rerun before the later one", before: afterDeath(rerun(forTick("a", 1))), claim: rerun(forTick("b", 2)), tick: 1, attempt: 2,
			check: func(t *testing.T, s *store, d backends.ClaimDecision) {
				if o := s.record.Tick; o.Tick != tick(1) || o.Claimant.ID != "b" || s.record.Runs[0].Tick != tick(1) {
					t.Errorf("recorded %+v", o)
				}
				s.finish(*d.Grant, backends.Done)
				if g := grant(t, s, rerun(forTick("c", 2))); g.Tick != tick(2) || g.Attempt != 1 {
					t.Errorf("then %+v", g)
				}
			},
		},
		{name: "stopped, rerun", before: after(backends.Stopped, rerun(forTick("a", 1))), claim: rerun(forTick("b", 1)), tick: 1, attempt: 2},
		{name: "third attempt", before: afterDeath(rerun(forTick("a", 1)), rerun(forTick("b", 1))), claim: rerun(forTick("c", 1)), tick: 1, attempt: 3},
		{
			name: "no attempts left", before: afterDeath(rerun(forTick("a", 1)), rerun(forTick("b", 1)), rerun(forTick("c", 1))),
			claim: rerun(forTick("d", 1)), verdict: backends.IsLost, holder: "c", first: true,
		},
		{
			name: "no attempts left, a later tick", before: afterDeath(rerun(forTick("a", 1)), rerun(forTick("b", 1)), rerun(forTick("c", 1))),
			claim: rerun(forTick("d", 2)), tick: 2, lost: lostTick,
		},
		{
			name: "the recorded policy decides", before: afterDeath(forTick("a", 1)), claim: rerun(forTick("b", 1)),
			verdict: backends.IsLost, first: true,
		},
		{name: "our own claim, after the lease", before: afterDeath(forTick("a", 1)), claim: forTick("a", 1), tick: 1},
		{
			name: "our own claim, the last attempt", claim: rerun(forTick("c", 1)), tick: 1, attempt: 3,
			before: afterDeath(rerun(forTick("a", 1)), rerun(forTick("b", 1)), rerun(forTick("c", 1))),
		},
		{name: "earlier, done", before: after(backends.Done, forTick("a", 1), forTick("b", 2)), claim: forTick("c", 1), verdict: backends.IsDone, holder: "a"},
		{name: "earlier, failed", claim: forTick("c", 1), verdict: backends.IsFailed, holder: "a", before: func(t *testing.T, s *store) {
			ran(t, s, forTick("a", 1), backends.Failed)
			ran(t, s, forTick("b", 2), backends.Done)
		}},
		{name: "earlier, unknown", before: after(backends.Done, forTick("b", 2)), claim: forTick("c", 1), verdict: backends.IsEarlier},
		{name: "earlier, open", claim: forTick("c", 1), verdict: backends.IsEarlier, before: func(t *testing.T, s *store) {
			ran(t, s, forTick("a", 1), backends.Open)
			ran(t, s, forTick("b", 2), backends.Done)
		}},
		{
			name: "held meanwhile, then a later one", claim: forTick("c", 3), tick: 3,
			lost: []backends.Occurrence{{Tick: tick(2), State: backends.Missed}},
			before: func(t *testing.T, s *store) {
				g := grant(t, s, forTick("a", 1))
				s.acquire(forTick("b", 2))
				s.finish(g, backends.Done)
			},
		},
		{name: "held meanwhile, then the same", claim: forTick("c", 2), tick: 2, before: func(t *testing.T, s *store) {
			g := grant(t, s, forTick("a", 1))
			s.acquire(forTick("b", 2))
			s.finish(g, backends.Done)
		}},
		{name: "without a tick", before: after(backends.Done, forTick("a", 1)), claim: by("b"), check: func(t *testing.T, s *store, _ backends.ClaimDecision) {
			if s.record.Tick.Tick != tick(1) || s.record.Tick.State != backends.Done {
				t.Errorf("a run without a tick changes it: %+v", s.record.Tick)
			}
		}},
		{name: "future", claim: forTick("a", 12), verdict: backends.Future},
		{name: "a little ahead", claim: forTick("a", 11), tick: 11},
		{name: "future is told even while held", before: during(by("a")), claim: forTick("b", 12), verdict: backends.Future},
		{name: "a recorded future", claim: forTick("b", 1), verdict: backends.FutureRecorded, holder: "a", before: func(t *testing.T, s *store) {
			s.sleep(24 * time.Hour)
			ran(t, s, forTick("a", 1000), backends.Done)
			s.sleep(-24 * time.Hour)
		}},
	})
}

func TestStartDeadline(t *testing.T) {
	minute := time.Minute
	runScenes(t, []scene{
		{name: "in time", claim: within(forTick("a", 9), minute), tick: 9},
		{
			name: "late", claim: within(forTick("a", 1), minute), verdict: backends.Late, tick: 1, first: true,
			check: func(t *testing.T, s *store, _ backends.ClaimDecision) {
				runs := s.record.Runs
				if len(runs) != 1 || runs[0].Tick != tick(1) || runs[0].State != backends.Missed || runs[0].Token != 0 || s.record.Job != "job" {
					t.Errorf("%+v", s.record)
				}
			},
		},
		{
			name: "late again", before: func(_ *testing.T, s *store) { s.acquire(within(forTick("a", 1), minute)) },
			claim: within(forTick("b", 1), minute), verdict: backends.IsMissed, tick: 1,
		},
		{
			name: "missed is for good", before: func(_ *testing.T, s *store) { s.acquire(within(forTick("a", 1), minute)) },
			claim: forTick("b", 1), verdict: backends.IsMissed,
		},
		{
			name: "a later one after a missed", before: func(_ *testing.T, s *store) { s.acquire(within(forTick("a", 1), minute)) },
			claim: within(forTick("b", 9), minute), tick: 9,
		},
		{
			name: "late and open", before: after(backends.Open, forTick("a", 1)),
			claim: within(forTick("b", 1), minute), verdict: backends.Late, tick: 1, first: true,
		},
		{
			name: "late for a rerun", before: after(backends.Stopped, rerun(forTick("a", 1))),
			claim: within(rerun(forTick("b", 1)), minute), verdict: backends.Late, tick: 1,
			check: func(t *testing.T, s *store, _ backends.ClaimDecision) {
				if s.record.Tick.State != backends.Stopped {
					t.Errorf("%+v", s.record.Tick)
				}
			},
		},
		{
			name: "too late for the unfinished one, in time for ours", before: after(backends.Stopped, rerun(forTick("a", 1))),
			claim: within(rerun(forTick("b", 9)), minute), tick: 9,
		},
	})
}

func TestKeys(t *testing.T) {
	runScenes(t, []scene{
		{name: "the first", claim: forKey("a", "k")},
		{name: "another", before: after(backends.Done, forKey("a", "k")), claim: forKey("b", "l")},
		{name: "done", before: after(backends.Done, forKey("a", "k"), forKey("b", "l")), claim: forKey("c", "k"), verdict: backends.IsDone, holder: "a"},
		{name: "failed", before: after(backends.Failed, forKey("a", "k")), claim: rerun(forKey("c", "k")), verdict: backends.IsFailed, holder: "a"},
		{name: "open", before: after(backends.Open, forKey("a", "k")), claim: forKey("b", "k")},
		{name: "vanished, skip", before: afterDeath(forKey("a", "k")), claim: forKey("b", "k"), verdict: backends.IsLost, holder: "a", first: true},
		{name: "vanished, rerun", before: afterDeath(rerun(forKey("a", "k"))), claim: rerun(forKey("b", "k")), attempt: 2},
		{name: "our own claim", before: afterDeath(forKey("a", "k")), claim: forKey("a", "k")},
		{
			name: "no ticks", before: after(backends.Done, forTick("a", 1)), claim: forKey("b", "k"),
			check: func(t *testing.T, s *store, _ backends.ClaimDecision) {
				if s.record.Tick.State != backends.Done || len(s.record.Once) != 1 || s.record.Once[0].State != backends.Claimed {
					t.Errorf("%+v, %+v", s.record.Tick, s.record.Once)
				}
			},
		},
	})

	s := newStore()
	for i := range backends.KeptKeys + 1 {
		ran(t, s, forKey(fmt.Sprint("h", i), fmt.Sprint("k", i)), backends.Done)
	}
	if len(s.record.Once) != backends.KeptKeys || s.record.Once[0].Key != fmt.Sprint("k", backends.KeptKeys) {
		t.Errorf("%d keys are kept, newest %q", len(s.record.Once), s.record.Once[0].Key)
	}
}

func TestSchedules(t *testing.T) {
	proof := func(c backends.Claim, fingerprint string, instant int64) backends.Claim {
		c.Unclaimed = backends.Unclaimed{Fingerprint: fingerprint, Instant: instant}
		return c
	}
	// The second host's schedule took over with tick 2; its run ended at minute 10.
	changed := after(backends.Done, on(forTick("a", 1), "A"), on(forTick("b", 2), "B"))
	later := func(t *testing.T, s *store) {
		t.Helper()
		changed(t, s)
		s.sleep(5 * time.Minute)
	}
	runScenes(t, []scene{
		{
			name: "a change", before: after(backends.Done, on(forTick("a", 1), "A")), claim: on(forTick("b", 2), "B"), tick: 2,
			check: func(t *testing.T, s *store, _ backends.ClaimDecision) {
				if s.record.Schedule.Fingerprint != "B" || s.record.Schedule.By.ID != "b" || len(s.record.Former) != 1 {
					t.Errorf("%+v, former %+v", s.record.Schedule, s.record.Former)
				}
			},
		},
		{
			name: "the former one", before: changed, claim: on(forTick("c", 3), "A"), verdict: backends.Outdated, holder: "b",
			check: func(t *testing.T, s *store, d backends.ClaimDecision) {
				if d.Refusal.Text != "text B" || d.Refusal.At.UnixMilli() != s.record.Schedule.At || d.Refusal.Lease.UnixMilli() != s.record.Ended {
					t.Errorf("%+v", *d.Refusal)
				}
			},
		},
		{name: "the same tick is not asked", before: changed, claim: on(forTick("c", 2), "A"), verdict: backends.IsDone},
		{name: "without a schedule", before: changed, claim: forTick("c", 3), tick: 3, check: func(t *testing.T, s *store, _ backends.ClaimDecision) {
			if s.record.Schedule.Fingerprint != "B" {
				t.Errorf("%+v", s.record.Schedule)
			}
		}},
		{
			name: "a rollback", before: later, claim: proof(on(forTick("c", 13), "A"), "B", tick(12)), tick: 13,
			check: func(t *testing.T, s *store, d backends.ClaimDecision) {
				if len(d.Grant.Notes) != 1 || s.record.Schedule.Fingerprint != "A" || len(s.record.Former) != 1 || s.record.Former[0].Fingerprint != "B" {
					t.Errorf("notes %q, %+v, former %+v", d.Grant.Notes, s.record.Schedule, s.record.Former)
				}
			},
		},
		{
			name: "a rollback, proof of another schedule", before: later,
			claim: proof(on(forTick("c", 13), "A"), "C", tick(12)), verdict: backends.Outdated,
		},
		{
			name: "a rollback, the instant is too young", before: later,
			claim: proof(on(forTick("c", 13), "A"), "B", start.Add(14*time.Minute+time.Second).Unix()), verdict: backends.Outdated,
		},
		{
			name: "a rollback, the lease was held then", before: later,
			claim: proof(on(forTick("c", 13), "A"), "B", tick(3)), verdict: backends.Outdated,
		},
		{
			name: "a rollback, the instant was claimed early", claim: proof(on(forTick("c", 13), "A"), "B", tick(12)), verdict: backends.Outdated,
			before: func(t *testing.T, s *store) {
				changed(t, s)
				s.sleep(2*time.Minute - 5*time.Second)
				ran(t, s, on(forTick("d", 12), "B"), backends.Done)
				s.sleep(5 * time.Minute)
			},
		},
		{
			name: "a rollback, the lease may have been held then", claim: proof(on(forTick("c", 16), "A"), "B", tick(14)), verdict: backends.Outdated,
			before: func(t *testing.T, s *store) {
				changed(t, s)
				c := on(forTick("d", 10), "B")
				c.TTL = 5 * time.Minute
				died(t, s, c)
				s.sleep(2 * time.Minute)
			},
		},
		{
			name: "a rollback, the instant was claimed", claim: proof(on(forTick("c", 13), "A"), "B", tick(12)), verdict: backends.Outdated,
			before: func(t *testing.T, s *store) {
				later(t, s)
				ran(t, s, on(forTick("d", 12), "B"), backends.Done)
				s.sleep(5 * time.Minute)
			},
		},
	})

	s := newStore()
	s.sleep(time.Hour)
	for i := range backends.KeptSchedules + 3 {
		ran(t, s, on(forTick(fmt.Sprint("h", i), int64(i)), fmt.Sprint(i)), backends.Done)
	}
	if n := len(s.record.Former); n != backends.KeptSchedules {
		t.Errorf("%d former schedules are kept", n)
	}
	if d := s.acquire(on(forTick("x", 50), "0")); d.Grant == nil {
		t.Errorf("a schedule that was forgotten is refused: %+v", *d.Refusal)
	}
}
