package backends_test

import (
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// into makes a claim for one of n parts.
func into(n int, c backends.Claim) backends.Claim {
	c.Parts = n
	return c
}

// A tick or key is worked through with the number of parts that it was begun with.
func TestDivided(t *testing.T) {
	parts := func(want int) func(*testing.T, *store, backends.ClaimDecision) {
		return func(t *testing.T, s *store, d backends.ClaimDecision) {
			t.Helper()
			if d.Refusal != nil && d.Refusal.Parts != want {
				t.Errorf("refused: %d parts, want %d", d.Refusal.Parts, want)
			}
			if d.Grant != nil && (s.record.Parts != want || d.Grant.Tick != 0 && s.record.Tick.Parts != want) {
				t.Errorf("recorded: %d parts, and %d of the tick; want %d", s.record.Parts, s.record.Tick.Parts, want)
			}
			if d.Refusal != nil && d.Changed {
				t.Error("a refusal writes")
			}
		}
	}
	lost := func(c backends.Claim) func(*testing.T, *store) { return afterDeath(rerun(c)) }
	runScenes(t, []scene{
		{name: "the first", claim: into(4, forTick("a", 5)), tick: 5, check: parts(4)},
		{name: "a key", claim: into(4, forKey("a", "k")), check: parts(4)},
		{
			name: "done", before: after(backends.Done, into(4, forTick("a", 5))), claim: into(3, forTick("b", 5)),
			verdict: backends.Divided, holder: "a", tick: 5, check: parts(4),
		},
		{
			name: "the same number", before: after(backends.Done, into(4, forTick("a", 5))), claim: into(4, forTick("b", 5)),
			verdict: backends.IsDone, tick: 5, check: parts(0),
		},
		{
			name: "undivided", before: after(backends.Done, into(4, forTick("a", 5))), claim: forTick("b", 5),
			verdict: backends.Divided, check: parts(4),
		},
		{
			name: "opened again", before: func(t *testing.T, s *store) {
				t.Helper()
				c := into(4, forTick("a", 5))
				grant(t, s, c)
				s.abandon(c)
			}, claim: into(3, forTick("b", 5)), verdict: backends.Divided, check: parts(4),
		},
		{name: "lost", before: lost(into(4, forTick("a", 5))), claim: rerun(into(3, forTick("b", 5))), verdict: backends.Divided, check: parts(4)},
		{name: "lost, the same number", before: lost(into(4, forTick("a", 5))), claim: rerun(into(4, forTick("b", 5))), tick: 5, attempt: 2, check: parts(4)},
		{
			name: "missed", before: func(t *testing.T, s *store) {
				t.Helper()
				s.acquire(within(into(4, forTick("a", 5)), 1))
			}, claim: into(3, forTick("b", 5)), verdict: backends.Divided, tick: 5, check: parts(4),
		},
		{name: "a key that is done", before: after(backends.Done, into(4, forKey("a", "k"))), claim: into(3, forKey("b", "k")), verdict: backends.Divided, holder: "a", check: parts(4)},
		{name: "another key", before: after(backends.Done, into(4, forKey("a", "k"))), claim: into(3, forKey("b", "l")), check: parts(3)},
		{name: "the next tick", before: after(backends.Done, into(4, forTick("a", 5))), claim: into(3, forTick("b", 6)), tick: 6, check: parts(3)},
		{
			name: "an earlier tick that may run again", before: lost(into(4, forTick("a", 5))), claim: rerun(into(3, forTick("b", 6))),
			verdict: backends.Divided, tick: 5, check: parts(4),
		},
		{
			name: "an earlier tick that may not", before: afterDeath(into(4, forTick("a", 5))), claim: rerun(into(3, forTick("b", 6))), tick: 6,
			lost: []backends.Occurrence{{Tick: tick(5), State: backends.Lost}}, check: parts(3),
		},
		{name: "without a tick", before: after(backends.Done, into(4, by("a"))), claim: into(3, by("b")), check: parts(3)},
		{name: "held", before: during(into(4, forTick("a", 5))), claim: into(3, forTick("b", 5)), verdict: backends.Held, tick: 5, check: parts(0)},
	})
}

// What an operator forgets does not make what is before it another one's.
func TestForgetADividedTick(t *testing.T) {
	s := newStore()
	s.sleep(1e12) // tick 1 is due
	ran(t, s, into(4, forTick("a", 1)), backends.Done)
	o := backends.Order{Job: "job", Kind: backends.ForgetTick, By: backends.Holder{ID: "op"}, Tick: tick(1)}
	d := backends.DecideOrder(s.view(), o)
	if d.Err != nil || d.Record.Tick.Parts != 4 {
		t.Errorf("%+v", d)
	}
	s.record = d.Record
	if g := grant(t, s, into(3, forTick("b", 1))); g.Tick != tick(1) || s.record.Tick.Parts != 3 {
		t.Errorf("%+v", g)
	}
}
