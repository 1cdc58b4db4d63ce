package suite

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// mutant is a driver with one fault, and the case that must fail because of it.
type mutant struct {
	fault string
	fails string
	build func(m *Mem) Harness
}

// in builds a mutant whose fault lies in a decision.
func in(change func(m *Mem)) func(*Mem) Harness {
	return func(m *Mem) Harness {
		change(m)
		return memHarness(m)
	}
}

// deciding builds a mutant that answers claims wrongly.
func deciding(f func(backends.View, backends.Claim) backends.ClaimDecision) func(*Mem) Harness {
	return in(func(m *Mem) { m.Rules.Claim = f })
}

func renewing(f func(backends.View, backends.Grant) backends.RenewDecision) func(*Mem) Harness {
	return in(func(m *Mem) { m.Rules.Renew = f })
}

func finishing(f func(backends.View, backends.Grant, backends.Outcome) backends.EndDecision) func(*Mem) Harness {
	return in(func(m *Mem) { m.Rules.Finish = f })
}

func abandoning(f func(backends.View, backends.Claim) backends.EndDecision) func(*Mem) Harness {
	return in(func(m *Mem) { m.Rules.Abandon = f })
}

// wrapped builds a mutant around a whole client.
func wrapped(open func(m *Mem) backends.Backend) func(*Mem) Harness {
	return func(m *Mem) Harness {
		h := memHarness(m)
		h.Open = func(testing.TB) backends.Backend { return open(m) }
		return h
	}
}

// The mutants that need methods of their own.
type (
	lazyRenewal  struct{ *Mem }
	raceRenewal  struct{ *Mem }
	deaf         struct{ *Mem }
	deafInFlight struct{ *Mem }
	endlessLease struct{ *Mem }
	endlessWatch struct{ *Mem }
	inventive    struct{ *Mem }
	closesOnce   struct {
		*Mem
		closed *bool
	}
)

func (d lazyRenewal) Renew(context.Context, backends.Grant) (backends.RenewAnswer, error) {
	return backends.RenewAnswer{}, nil
}

func (d raceRenewal) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	status, err := d.Inspect(ctx, g.Claim.Job)
	if err != nil || status.Lease == nil || status.Lease.Token != g.Token {
		return backends.RenewAnswer{}, backends.ErrLost
	}
	time.Sleep(time.Millisecond)
	d.alone(func() {
		j := d.jobs[g.Claim.Job]
		j.holder, j.token, j.until = g.Claim.Holder.ID, g.Token, d.clock().Add(g.TTL)
	})
	return backends.RenewAnswer{}, nil
}

func (d deaf) Acquire(_ context.Context, c backends.Claim) (backends.Grant, error) {
	return d.Mem.Acquire(context.Background(), c)
}

func (d deafInFlight) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	if err := ctx.Err(); err != nil {
		return backends.RenewAnswer{}, err
	}
	return d.Mem.Renew(context.Background(), g)
}

func (d endlessLease) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	c.TTL *= 1000
	return d.Mem.Acquire(ctx, c)
}

func (d endlessWatch) Watch(_ context.Context, job string) (<-chan backends.News, error) {
	return d.Mem.Watch(context.Background(), job)
}

// blind writes on whatever there is.
type blind struct{ *memStore }

type blindTx struct{ backends.Tx }

func (b blind) Begin(ctx context.Context, q backends.Request) backends.Tx {
	return blindTx{b.memStore.Begin(ctx, q)}
}

func (t blindTx) Swap(ctx context.Context, _ backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	now, err := t.Read(ctx)
	if err != nil {
		return nil, false, err
	}
	return t.Tx.Swap(ctx, now, w)
}

// careless takes a record of a newer form for one that can be read.
type careless struct{ *Mem }

func (d careless) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	err := d.Mem.Finish(ctx, g, o)
	if _, newer := errors.AsType[backends.NewerForm](err); newer {
		return nil
	}
	return err
}

func (d inventive) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, err := d.Mem.Inspect(ctx, job)
	if errors.Is(err, backends.ErrUnknownJob) {
		err = nil
	}
	return s, err
}

func (d closesOnce) Close() error {
	if *d.closed {
		return errors.New("closed already")
	}
	*d.closed = true
	return nil
}

// free makes a view look as if nobody had the lease.
func free(v backends.View) backends.View {
	v.Lease = nil
	v.Record.Released = v.Record.Token
	return v
}

// owned makes a view look as if the grant had the lease.
func owned(v backends.View, g backends.Grant) backends.View {
	v.Lease = &backends.Lease{Holder: g.Claim.Holder.ID, Token: g.Token, Left: time.Second}
	return v
}

func mutants() []mutant {
	var list []mutant
	list = append(list, leaseMutants()...)
	list = append(list, endMutants()...)
	list = append(list, tickMutants()...)
	list = append(list, orderMutants()...)
	return append(list, storeMutants()...)
}

const victim = "LEADERRUN_TEST_MUTANT"

// TestVictim is the suite on the mutant that the environment names; TestMutants runs it in a process of its own.
func TestVictim(t *testing.T) {
	name := os.Getenv(victim)
	if name == "" {
		return // nothing to do unless TestMutants asks for it
	}
	patience = 2 * time.Second
	seedOfPlays = 1 // in which each of these mutants shows
	for _, m := range mutants() {
		if m.fault == name {
			Run(t, m.build(NewMem(nil)))
		}
	}
}

// TestMutants: the suite fails for each of the broken drivers, in the case that was written for the fault.
func TestMutants(t *testing.T) {
	t.Parallel()
	if os.Getenv(victim) != "" {
		return // this is the victim
	}
	for _, m := range mutants() {
		t.Run(m.fault, func(t *testing.T) {
			t.Parallel()
			path := strings.ReplaceAll("^TestVictim$/^"+m.fails+"$", " ", "_")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", path, "-test.timeout", "2m")
			cmd.Env = append(os.Environ(), victim+"="+m.fault)
			out, err := cmd.CombinedOutput()
			want := "--- FAIL: TestVictim/" + strings.ReplaceAll(m.fails, " ", "_")
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("the suite does not notice: %v\n%s", err, out)
			}
		})
	}
}

// TestEveryCaseCanFail: each case has a mutant, and each mutant a case.
func TestEveryCaseCanFail(t *testing.T) {
	failing := map[string]bool{}
	for _, m := range mutants() {
		failing[m.fails] = true
	}
	for _, c := range cases {
		if !failing[c.name] {
			t.Errorf("no mutant makes %q fail", c.name)
		}
		delete(failing, c.name)
	}
	for name := range failing {
		t.Errorf("there is no case %q", name)
	}
}
