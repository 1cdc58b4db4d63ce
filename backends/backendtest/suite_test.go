package backendtest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/backends"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memHarness wraps a store in memory as a driver's test would.
func memHarness(m *Mem) Harness {
	ttl := 300 * time.Millisecond
	m.Longest = steady
	return Harness{
		Open:         func(testing.TB) backends.Driver { return m },
		TTL:          ttl,
		Settle:       m.Longest,
		DeleteLease:  func(_ testing.TB, job string) { m.DeleteLease(job) },
		DeleteRecord: func(_ testing.TB, job string) { m.DeleteRecord(job) },
		SetBreak:     func(_ testing.TB, job string, b backends.BreakRequest) { m.SetBreak(job, b) },
		Stall:        func(testing.TB) func() { return m.Stall() },
	}
}

// forgetful adds what makes every claim wait.
func forgetful(m *Mem) Harness {
	h := memHarness(m)
	m.Longest = 700 * time.Millisecond
	h.Settle = m.Longest
	h.Empty = func(testing.TB) { m.Empty() }
	h.Restart = func(testing.TB) { m.Restart(false) }
	h.RestartEmpty = func(testing.TB) { m.Restart(true) }
	return h
}

func TestMem(t *testing.T) { Run(t, memHarness(NewMem(nil))) }

func TestMemByBeat(t *testing.T) {
	m := NewMem(nil)
	m.Proof = backends.ByBeat
	Run(t, memHarness(m))
}

// TestMemForgetful runs the cases in which the store forgets; its longest lease is too short for the others.
func TestMemForgetful(t *testing.T) {
	h := forgetful(NewMem(nil))
	for _, c := range cases {
		if c.needs != nil && c.needs(h) && !c.needs(memHarness(NewMem(nil))) {
			t.Run(c.name, func(t *testing.T) { runCase(t, h, c) })
		}
	}
}

// A harness that can do nothing to its store still gets the cases that need nothing.
func TestNeeds(t *testing.T) {
	for _, c := range cases {
		if c.needs != nil && c.needs(Harness{}) {
			t.Errorf("%s: runs without what it needs", c.name)
		}
	}
}
