package shards

import (
	"context"
	"strings"
	"testing"
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
		inBed(t, func(t *testing.T, b *bed) {
			b.reserve(slot, time.Minute)
			a := b.host("a")
			time.AfterFunc(2*time.Minute, a.End)
			if o := a.work(2, time.Second, rerun); !o.IsDone() || b.since() < time.Minute || len(a.claims) > 40 {
				t.Errorf("%+v after %v, %d claims", o, b.since(), len(a.claims))
			}
		})
		inBed(t, func(t *testing.T, b *bed) {
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
		"the store is away":          func(h *host) { h.Cut(true) },
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				a := b.host("a")
				time.AfterFunc(30*time.Second, a.Die)
				a.work(5, 20*time.Second, func(t *Tick) { t.Trigger.OnLost = backends.Rerun })
				time.Sleep(time.Minute)
				c := b.host("b")
				time.AfterFunc(30*time.Second, func() { fail(c) })
				o := c.work(3, 20*time.Second, func(t *Tick) {
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

// A shard of an earlier tick that an operator has ended here is not run here again, and who came for the later tick says so.
func TestABrokenShardOfTheEarlierTick(t *testing.T) {
	for _, wait := range []time.Duration{0, runner.Forever} {
		inBed(t, func(t *testing.T, b *bed) {
			a := b.host("a")
			time.AfterFunc(5*time.Second, a.Die)
			a.work(1, time.Hour, func(t *Tick) { t.Trigger.OnLost = backends.Rerun })
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
			o := c.work(1, time.Hour, func(t *Tick) {
				t.Trigger.Tick, t.Trigger.OnLost, t.Wait = b.tick(1), backends.Rerun, wait
			})
			if o.Busy != nil || o.Stop == nil || o.Stop.Ending != runner.Broken || len(b.ran) != 2 {
				t.Errorf("%+v, ran %q", o, b.ran)
			}
		})
	}
}

// gone has a host work through five shards of a tick or key, and die; then the record of shard 0 goes.
func (b *bed) gone(with func(*Tick), order backends.OrderKind) {
	b.t.Helper()
	a := b.host("a")
	time.AfterFunc(25*time.Second, a.Die)
	a.work(5, 10*time.Second, with)
	time.Sleep(10 * ttl)
	if order == "" {
		b.store.DeleteRecord("job#0")
		return
	}
	o := backends.Order{Job: "job#0", Kind: order, By: backends.Holder{ID: "op"}}
	switch order {
	case backends.ForgetTick:
		o.Tick = b.tick(0)
	case backends.ForgetKey:
		o.Key = "k"
	}
	if err := b.store.Order(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

// If the record of shard 0 is gone, a tick or key keeps its number of shards all the same. What was lost does not run again under skip,
// but what an operator has had forgotten does, as any shard.
func TestTheRecordOfTheFirstShardIsGone(t *testing.T) {
	for _, c := range []struct {
		name        string
		key         bool
		forgets     backends.OrderKind // "": the record is lost
		policy      backends.Policy
		n           int
		ran, starts int // in all, and of shard 0
		end         backends.State
	}{
		{name: "lost", policy: backends.Skip, n: 3, ran: 5, starts: 1, end: backends.Lost},
		{name: "lost, of a key", key: true, policy: backends.Skip, n: 3, ran: 5, starts: 1, end: backends.Lost},
		{name: "lost, and most are looked for", policy: backends.Skip, n: 1, ran: 5, starts: 1, end: backends.Lost},
		{name: "lost, and run again", policy: backends.Rerun, n: 8, ran: 7, starts: 2},
		{name: "forgotten", forgets: backends.ForgetJob, policy: backends.Skip, n: 3, ran: 6, starts: 2},
		{name: "forgotten, of a key", key: true, forgets: backends.ForgetJob, policy: backends.Skip, n: 3, ran: 6, starts: 2},
		{name: "forgotten, and run again", forgets: backends.ForgetJob, policy: backends.Rerun, n: 8, ran: 7, starts: 2},
		{name: "a forgotten tick", forgets: backends.ForgetTick, policy: backends.Skip, n: 3, ran: 6, starts: 2},
		{name: "a forgotten key", key: true, forgets: backends.ForgetKey, policy: backends.Skip, n: 3, ran: 6, starts: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				with := func(x *Tick) {
					x.Trigger.OnLost, x.Trigger.Tick = c.policy, b.tick(0)
					if c.key {
						x.Trigger.Tick, x.Trigger.Once = 0, "k"
					}
				}
				b.gone(with, c.forgets)
				h := b.host("b")
				o := h.work(c.n, time.Second, with)
				starts := 0
				for what, n := range b.starts {
					if strings.HasSuffix(what, " job#0") {
						starts += n
					}
				}
				if o.Trigger.Parts != 5 || len(b.ran) != c.ran || starts != c.starts || c.end != "" && o.Ended[c.end] == 0 {
					t.Errorf("%d shards, ran %q, shard 0 %d times: %+v", o.Trigger.Parts, b.ran, starts, o)
				}
				if h.warned == "" {
					t.Error("it says nothing")
				}
			})
		})
	}
}

// The tick whose first record is gone comes before the next one, and only what is left of it is run.
func TestTheRecordOfTheFirstShardIsGoneFromTheEarlierTick(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.gone(func(t *Tick) { t.Trigger.OnLost = backends.Rerun }, "")
		o := b.host("b").work(3, time.Second, func(t *Tick) { t.Trigger.Tick, t.Trigger.OnLost = b.tick(1), backends.Rerun })
		if !o.IsDone() || len(o.Before) != 1 || o.Before[0].Done != 4 || o.Before[0].Ended[backends.Lost] != 1 {
			t.Errorf("%+v, ran %q", o, b.ran)
		}
	})
}

// The record of shard 0 is lost while a host stands by.
func TestTheRecordOfTheFirstShardIsLostMeanwhile(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		c := b.host("c")
		time.AfterFunc(9*time.Second, func() { c.Cut(true) })
		time.AfterFunc(11*time.Second, func() { b.store.DeleteRecord("job#0") })
		time.AfterFunc(12*time.Second, func() { c.Cut(false) })
		outs := b.together([]*host{b.host("a"), b.host("b"), c}, func(h *host) Outcome {
			if h == c {
				time.Sleep(5 * time.Second)
			}
			return h.work(2, 10*time.Second, func(t *Tick) { t.Wait = runner.Forever })
		})
		if o := outs[2]; len(b.ran) != 2 || o.Done != 1 || o.Ended[backends.Lost] != 1 {
			t.Errorf("ran %q, %+v", b.ran, o)
		}
	})
}

// late shows what the store has now only after f was called, the first time it is asked.
type late struct {
	Store
	f func()
}

func (l *late) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, err := l.Store.Inspect(ctx, job)
	if f := l.f; f != nil {
		l.f = nil
		f()
	}
	return s, err
}

// Somebody begins the tick after this host has looked at shard 0, and before it looks at the others.
func TestATickIsBegunBetweenTwoLooks(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		o := b.host("a").work(3, time.Second, func(t *Tick) {
			t.Store = &late{t.Store, func() { b.host("b").work(3, time.Second, nil) }}
		})
		if !o.IsDone() {
			t.Errorf("%+v", o)
		}
	})
}
