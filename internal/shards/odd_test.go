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
	b.free(g)
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
