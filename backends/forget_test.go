package backends_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func forgetTick(tick int64) backends.Order {
	o := ordered(backends.ForgetTick)
	o.Tick = tick
	return o
}

func forgetKey(key string) backends.Order {
	o := ordered(backends.ForgetKey)
	o.Key = key
	return o
}

func TestForgetTick(t *testing.T) {
	is := func(want int64) func(t *testing.T, s, _ *store) {
		return func(t *testing.T, s, _ *store) {
			t.Helper()
			if s.record.Tick.Tick != want || s.record.Passed != 0 {
				t.Errorf("recorded %+v, passed %d; want tick %d", s.record.Tick, s.record.Passed, want)
			}
		}
	}
	forget := func(s *store) backends.Order { return forgetTick(s.record.Tick.Tick) }
	ahead := func(t *testing.T, s *store) { // as a clock that was wrong leaves it
		t.Helper()
		s.sleep(time.Hour)
		ran(t, s, forTick("ahead", 60), backends.Done)
		s.sleep(-time.Hour)
	}
	runOrders(t, []orderScene{
		{
			name: "the only one", before: after(backends.Done, rerun(forTick("a", 3))), order: forget,
			check: func(t *testing.T, s, before *store) {
				is(tick(3)-1)(t, s, before)
				if last := s.record.LastTick(); last.Tick != 0 {
					t.Errorf("a tick that nobody had: %+v", last)
				}
				if d := s.acquire(rerun(forTick("b", 2))); d.Refusal == nil || d.Refusal.Verdict != backends.IsEarlier {
					t.Errorf("an older one runs: %+v", d)
				}
				if d := s.acquire(rerun(forTick("b", 3))); d.Grant == nil || d.Grant.Tick != tick(3) || d.Grant.Attempt != 1 || d.Grant.Token <= before.record.Token {
					t.Errorf("not to be run again: %+v", d)
				}
			},
		},
		{
			name: "the only one, in the future", before: ahead, order: forget,
			check: func(t *testing.T, s, before *store) {
				is(0)(t, s, before)
				if d := s.acquire(forTick("b", 10)); d.Grant == nil {
					t.Errorf("a wrong clock still keeps the job from running: %+v", *d.Refusal)
				}
			},
		},
		{
			name: "another one than was seen", err: backends.ErrOver, before: after(backends.Done, forTick("a", 3), forTick("b", 4)),
			order: func(*store) backends.Order { return forgetTick(tick(3)) },
		},
		{
			name: "back to the latest one before it", order: forget,
			before: after(backends.Done, forTick("a", 2), forTick("b", 3), by("c"), forTick("d", 5)),
			check: func(t *testing.T, s, before *store) {
				is(tick(3))(t, s, before)
				if last := s.record.LastTick(); last.Tick != tick(3) {
					t.Errorf("the last tick is %+v", last)
				}
				for n, verdict := range map[int64]backends.Verdict{2: backends.IsDone, 3: backends.IsDone, 1: backends.IsEarlier} {
					if d := s.acquire(forTick("e", n)); d.Refusal == nil || d.Refusal.Verdict != verdict {
						t.Errorf("tick %d: %+v, want %s", n, d, verdict)
					}
				}
				if d := s.acquire(forTick("f", 5)); d.Grant == nil {
					t.Errorf("not to be run again: %+v", *d.Refusal)
				}
			},
		},
		{
			name: "a lost one before it, with rerun", order: forget,
			before: func(t *testing.T, s *store) {
				c := rerun(forTick("a", 2))
				c.MaxAttempts = 1
				ran(t, s, c, backends.Lost)
				ran(t, s, forTick("b", 3), backends.Done)
			},
			check: func(t *testing.T, s, _ *store) {
				if d := s.acquire(rerun(forTick("c", 2))); d.Refusal == nil || d.Refusal.Verdict != backends.IsLost {
					t.Errorf("an older one runs again: %+v", d)
				}
			},
		},
		{name: "being run now", before: during(forTick("a", 3)), order: forget, refuse: backends.Held, wait: ttl},
		{
			name: "perhaps being run now", order: forget, refuse: backends.Vanished, wait: ttl,
			before: func(t *testing.T, s *store) { grant(t, s, forTick("a", 3)); s.vanish() },
		},
		{name: "of a holder that died", before: afterDeath(forTick("a", 3)), order: forget, check: is(tick(3) - 1)},
	})
}

// The suite shows what forgetting a key changes, for every store.
func TestForgetKey(t *testing.T) {
	forget := func(*store) backends.Order { return forgetKey("k") }
	runOrders(t, []orderScene{
		{
			name: "another one is being run", order: forget,
			before: func(t *testing.T, s *store) {
				ran(t, s, forKey("a", "k"), backends.Done)
				grant(t, s, forKey("b", "j"))
			},
		},
		{
			name: "perhaps being run now", order: forget, refuse: backends.Vanished, wait: ttl,
			before: func(t *testing.T, s *store) { grant(t, s, forKey("a", "k")); s.vanish() },
		},
	})
}

// The suite shows what forgetting a job changes, for every store.
func TestForgetJob(t *testing.T) {
	forget := plain(backends.ForgetJob)
	vanished := func(t *testing.T, s *store) { t.Helper(); grant(t, s, by("a")); s.vanish() }
	runOrders(t, []orderScene{
		{name: "held", before: during(by("a")), order: forget, refuse: backends.Held, wait: ttl},
		{name: "vanished", before: vanished, order: forget, refuse: backends.Vanished, wait: ttl},
		{name: "expired", before: afterDeath(by("a")), order: forget},
		{
			name: "the lock is free", order: forget,
			before: func(t *testing.T, s *store) { s.proof = backends.ByRelease; vanished(t, s) },
		},
		{
			name: "expired, by beats, not watched", order: forget, refuse: backends.Vanished, wait: ttl,
			before: func(t *testing.T, s *store) { s.proof = backends.ByBeat; died(t, s, by("a")) },
		},
		{
			name: "expired, by beats, watched",
			order: func(s *store) backends.Order {
				o := ordered(backends.ForgetJob)
				refusal, _ := errors.AsType[*backends.Refusal](s.order(o).Err)
				o.Seen = refusal.Seen
				o.Seen.For = ttl
				return o
			},
			before: func(t *testing.T, s *store) { s.proof = backends.ByBeat; died(t, s, by("a")) },
		},
	})
	s := newStore()
	ran(t, s, by("a"), backends.Done)
	v := s.view()
	v.Quarantine = time.Second
	d := backends.DecideOrder(v, ordered(backends.ForgetJob))
	if r, ok := errors.AsType[*backends.Refusal](d.Err); !ok || r.Verdict != backends.Quarantined || r.Wait != time.Second || d.Changed {
		t.Errorf("in quarantine: %+v", d)
	}
}

// A claim may be on its way while its holder gives up, or while it is answered by another one of it: nobody waits for
// what it would be granted, also when the job is forgotten in between.
func TestForgetJobKeepsLateClaimsOut(t *testing.T) {
	s := newStore()
	for i := range 2 * backends.KeptAbandoned {
		s.abandon(by(fmt.Sprint("gave up ", i)))
	}
	ran(t, s, by("has ended"), backends.Done)
	if d := s.order(ordered(backends.ForgetJob)); d.Err != nil {
		t.Fatal(d.Err)
	}
	late := []string{"has ended", fmt.Sprint("gave up ", 2*backends.KeptAbandoned-1)}
	for _, id := range late {
		if d := s.acquire(by(id)); d.Refusal == nil || d.Refusal.Verdict != backends.Abandoned {
			t.Errorf("%s: %+v", id, d)
		}
	}
	if n := len(s.record.Refused); n > backends.KeptAbandoned || slices.Contains(s.record.Refused, "") {
		t.Errorf("%d refused: %q", n, s.record.Refused)
	}
}
