package shards

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// While a host finishes an earlier tick, the start deadline of that tick may come. What is left of it then is missed, and the later tick
// is begun, as with a job that is not divided.
func TestTheEarlierTickGetsTooLateWhileItIsFinished(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		a, c := b.host("a"), b.host("b")
		with := func(t *Tick) {
			t.Trigger.OnLost, t.Trigger.StartDeadline = backends.Rerun, 90*time.Second
		}
		go func() { time.Sleep(70 * time.Second); a.Die() }()
		a.work(5, 50*time.Second, with)
		o := c.work(5, 8*time.Second, func(t *Tick) {
			with(t)
			t.Trigger.Tick = b.tick(1)
		})
		if !o.IsDone() || len(o.Before) != 1 || !strings.HasSuffix(c.warned, "was left with 3 of 5 shards done") {
			t.Errorf("%+v after %v: %q, %q", o, b.since(), b.ran, c.warned)
		}
	})
}

// A shard that was done as one of five is not done as one of three.
func TestDoneAsOneOfAnotherNumber(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		once := func(t *Tick) { t.Trigger.Tick, t.Trigger.Once = 0, "k" }
		b.host("a").work(5, time.Second, once)
		seen := map[int]backends.Status{}
		for k := range 3 {
			s, err := b.store.Inspect(t.Context(), slots.Name("job", k))
			if err != nil {
				t.Fatal(err)
			}
			seen[k] = s
		}
		trigger := backends.Trigger{Once: "k", OnLost: backends.Skip, Parts: 3}
		if o := Sum(trigger, seen); o.IsDone() || o.Done != 0 {
			t.Errorf("%+v", o)
		}
	})
}

// A host that cannot start commands in time, because its disk hangs, does not keep the shards of a tick from those that can: neither the
// first one, with which a tick is begun, nor any other.
func TestAHostThatCannotStartInTime(t *testing.T) {
	for i := range 40 {
		inBed(t, func(t *testing.T, b *bed) {
			slow, other := b.host("slow"), b.host("other")
			slow.slow = true
			defer time.AfterFunc(time.Hour, b.stop).Stop()
			outs := b.together([]*host{slow, other}, func(h *host) Outcome {
				if h == slow == (i%2 == 0) {
					time.Sleep(time.Second)
				}
				return h.work(3, 3*time.Second, func(t *Tick) { t.Wait = runner.Forever })
			})
			if !outs[0].IsDone() || !outs[1].IsDone() || len(slow.claims) > 4 {
				t.Errorf("the slow host claims %q, %v: %+v", slow.claims, b.since(), outs)
			}
		})
	}
}

// A host that can never start a command in time, and is alone, says so in the end.
func TestAHostThatNeverStartsInTime(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		a := b.host("a")
		a.slow = true
		o := a.work(3, time.Second, nil)
		if o.Stop == nil || o.Stop.Ending != runner.NotStarted || len(a.claims) != mostNotBegun {
			t.Errorf("%d claims: %+v", len(a.claims), o)
		}
	})
}
