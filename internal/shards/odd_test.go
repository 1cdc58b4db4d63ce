package shards

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// reserve leaves a slot that is kept for another host, as `run --slots --min-hold` does.
func (b *bed) reserve(slot int, hold time.Duration) {
	b.t.Helper()
	g, err := b.store.Acquire(context.Background(), backends.Claim{
		Job: slots.Name("job", slot), Holder: backends.Holder{ID: "r", Host: "other", PID: 1}, TTL: ttl, MinHold: hold,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.store.Finish(context.Background(), g, backends.Outcome{State: backends.Done}); err != nil {
		b.t.Fatal(err)
	}
}

// A shard that is kept for another host is looked at now and then, as one that another host runs.
func TestAShardThatIsKept(t *testing.T) {
	for _, slot := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			b.reserve(slot, time.Minute)
			a := b.host("a")
			time.AfterFunc(2*time.Minute, a.end)
			if o := a.work(2, time.Second, rerun); !o.IsDone() || b.since() < time.Minute || len(a.claims) > 40 {
				t.Errorf("%+v after %v, %d claims", o, b.since(), len(a.claims))
			}
		})
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			b.reserve(slot, time.Minute)
			a := b.host("a")
			if o := a.work(2, time.Second, nil); o.IsDone() || b.since() > 10*time.Second || len(a.claims) > 8 {
				t.Errorf("without a wait: %+v after %v, %d claims", o, b.since(), len(a.claims))
			}
		})
	}
}

// Who cannot go on while it works an earlier tick through says why, and not that somebody is in the way.
func TestTheEarlierTickCannotBeFinished(t *testing.T) {
	for name, fail := range map[string]func(*host){
		"nothing may start any more": func(h *host) { h.giveUp() },
		"the store is away":          func(h *host) { h.set(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				a := b.host("a")
				time.AfterFunc(30*time.Second, a.die)
				a.work(5, 20*time.Second, func(t *Tick, _ *runner.Request) { t.Trigger.OnLost = backends.Rerun })
				time.Sleep(time.Minute)
				c := b.host("b")
				time.AfterFunc(30*time.Second, func() { fail(c) })
				o := c.work(3, 20*time.Second, func(t *Tick, _ *runner.Request) {
					t.Trigger.Tick, t.Trigger.OnLost = b.tick(1), backends.Rerun
				})
				if o.Stop == nil || o.Busy != nil {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

// What a store says of an earlier tick of a shard is no word about this one.
func TestARefusalOfAnEarlierTick(t *testing.T) {
	for _, verdict := range []backends.Verdict{backends.IsDone, backends.IsFailed, backends.IsLost, backends.IsEarlier, backends.Late} {
		w := newWork(&Tick{Trigger: backends.Trigger{Tick: 2e9, Parts: 3}, Wanted: t.Context()})
		w.running, w.parts[1].standing = 1, here
		w.ended(finished{shard: 1, earlier: true, result: runner.Result{
			Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: verdict, Tick: 1e9},
		}})
		if p := w.parts[1]; p.standing != unknown || p.state != "" || w.stop != nil {
			t.Errorf("%s: %+v, %+v", verdict, p, w.stop)
		}
	}
}

// A shard of an earlier tick that was broken here leaves the one of this tick to others.
func TestABrokenRunOfAnEarlierTick(t *testing.T) {
	w := newWork(&Tick{Trigger: backends.Trigger{Tick: 2e9, Parts: 3}, Wanted: t.Context()})
	w.running, w.parts[1].standing = 1, here
	w.ended(finished{shard: 1, earlier: true, result: runner.Result{Ending: runner.Broken, Grant: backends.Grant{Token: 1, Tick: 1e9}}})
	if o := w.outcome(); o.Open != 3 || o.Ended[backends.Stopped] != 0 {
		t.Errorf("%+v", o)
	}
}

// A shard of an earlier tick that an operator has ended here is not run here again, and who came for the later tick says so.
func TestABrokenShardOfTheEarlierTick(t *testing.T) {
	for _, wait := range []time.Duration{0, runner.Forever} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			a := b.host("a")
			time.AfterFunc(5*time.Second, a.die)
			a.work(1, time.Hour, func(t *Tick, _ *runner.Request) { t.Trigger.OnLost = backends.Rerun })
			time.Sleep(time.Minute)
			c := b.host("b")
			time.AfterFunc(30*time.Second, func() {
				s, err := b.store.Inspect(t.Context(), "job#0")
				if err != nil || s.Lease == nil {
					t.Error(s, err)
					return
				}
				b.store.SetBreak("job#0", backends.BreakRequest{Token: s.Lease.Token})
			})
			o := c.work(1, time.Hour, func(t *Tick, _ *runner.Request) {
				t.Trigger.Tick, t.Trigger.OnLost, t.Wait = b.tick(1), backends.Rerun, wait
			})
			if o.Busy != nil || o.Stop == nil || o.Stop.Ending != runner.Broken || len(b.ran) != 2 {
				t.Errorf("%+v, ran %q", o, b.ran)
			}
		})
	}
}

// The recorded number of shards can come to be another one while a host works: an operator has shard 0 forget the tick, and a host
// with another number begins it again. This host leaves what it cannot have, and says why.
func TestTheNumberOfShardsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		a := b.host("a")
		time.AfterFunc(5*time.Second, a.die)
		a.work(5, time.Hour, func(t *Tick, r *runner.Request) { t.Parallel = 5; rerun(t, r) })
		time.Sleep(3 * ttl)
		o := backends.Order{Job: "job#0", Kind: backends.ForgetTick, By: backends.Holder{ID: "op"}, Tick: b.tick(0)}
		if err := b.store.Order(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		b.parts = map[string]string{} // the operator answers for it
		c := b.host("b")
		out := c.work(3, time.Second, func(t *Tick, r *runner.Request) {
			rerun(t, r)
			t.Trigger.Tick = b.tick(0)
		})
		if out.Trigger.Parts != 3 || out.IsDone() || !out.Differs() || len(c.claims) > 10 {
			t.Errorf("%+v, claimed %q", out, c.claims)
		}
	})
}
