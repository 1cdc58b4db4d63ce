package suite

import (
	"context"
	"reflect"
	"slices"
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
		Open:         func(testing.TB) backends.Backend { return m.Client() },
		TTL:          ttl,
		Settle:       m.Longest,
		DeleteLease:  func(_ testing.TB, job string) { m.DeleteLease(job) },
		DeleteRecord: func(_ testing.TB, job string) { m.DeleteRecord(job) },
		Change:       func(_ testing.TB, job string, change func(r *backends.Record)) { m.Change(job, change) },
		Stall:        func(testing.TB) func() { return m.Stall() },
		Lacks:        map[string]string{"Empty": another, "Restart": another, "RestartEmpty": another},
	}
}

const another = "TestMemForgetful has it"

// forgetful adds what makes every claim wait.
func forgetful(m *Mem) Harness {
	h := memHarness(m)
	m.Longest = 700 * time.Millisecond
	h.Settle = m.Longest
	h.Empty = func(testing.TB) { m.Empty() }
	h.Restart = func(testing.TB) { m.Restart(false) }
	h.RestartEmpty = func(testing.TB) { m.Restart(true) }
	h.Lacks = nil
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
		if c.needs != nil && c.needs.in(h) && !c.needs.in(memHarness(NewMem(nil))) {
			t.Run(c.name, func(t *testing.T) { runCase(t, h, c) })
		}
	}
}

// TestMemSwap: nothing is written on what the store has forgotten since it was read, also where it knew nothing then and knows
// nothing now: somebody may have been granted meanwhile.
func TestMemSwap(t *testing.T) {
	for name, forget := range map[string]func(m *Mem){
		"a lease":   func(m *Mem) { m.DeleteLease("job") },
		"a record":  func(m *Mem) { m.DeleteRecord("job") },
		"a restart": func(m *Mem) { m.Restart(false) },
		"all":       (*Mem).Empty,
	} {
		m := NewMem(nil)
		c := NewClaim("job", steady)
		tx := m.Begin(t.Context(), backends.Request{Op: backends.ToClaim, Job: c.Job, Holder: c.Holder, TTL: c.TTL})
		was, err := tx.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		On(t).Acquire(m, NewClaim("job", steady))
		forget(m)
		if _, done, err := tx.Swap(t.Context(), was, backends.Write{Record: backends.Record{Job: "job", Token: 1}}); done || err != nil {
			t.Errorf("%s was forgotten: %v, %v", name, done, err)
		}
	}
}

// late is a client whose first renewals come after the lease has run out, as on a busy machine.
type late struct {
	backends.Backend
	left, asked *int
}

func (l late) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	*l.asked++
	if *l.left > 0 {
		*l.left--
		time.Sleep(g.TTL)
	}
	return l.Backend.Renew(ctx, g)
}

// TestABusyMachineSkipsNothing: however many races the machine loses, the case ends with a verdict.
func TestABusyMachineSkipsNothing(t *testing.T) {
	const lost = 10
	left, asked := lost, 0
	m := NewMem(nil)
	h := memHarness(m)
	h.TTL = 4 * slack
	h.Open = func(testing.TB) backends.Backend { return late{m.Client(), &left, &asked} }
	i := slices.IndexFunc(cases, func(c testCase) bool { return c.name == "a renewal counts until the lease expires" })
	t.Run(cases[i].name, func(t *testing.T) { runCase(t, h, cases[i]) })
	if asked <= lost {
		t.Errorf("%d renewals, of which %d come too late", asked, lost)
	}
}

// TestLacks: each function of a harness is there, or there is a reason why not.
func TestLacks(t *testing.T) {
	full := forgetful(NewMem(nil))
	with := func(change func(h *Harness)) Harness {
		h := full
		change(&h)
		return h
	}
	for _, c := range []struct {
		name string
		h    Harness
		want []string
	}{
		{"nothing is lacking", full, nil},
		{"with a reason", with(func(h *Harness) { h.Stall, h.Lacks = nil, map[string]string{"Stall": "why"} }), nil},
		{"without", with(func(h *Harness) { h.Stall = nil }), []string{"Stall is not there, and Lacks does not say why"}},
		{
			"a reason too many", with(func(h *Harness) { h.Lacks = map[string]string{"Empty": "why"} }),
			[]string{"Empty is there, though Lacks says why it is not: why"},
		},
	} {
		if got := c.h.gaps(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Harness]()) {
		known := slices.ContainsFunc(functions, func(known *function) bool { return known.name == f.Name })
		if f.Type.Kind() == reflect.Func && f.Name != "Open" && f.Name != "Expire" && !known {
			t.Errorf("%s may be nil without a reason", f.Name)
		}
	}
}
