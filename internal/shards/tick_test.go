package shards

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// together lets hosts work through a tick at once, and returns what each has seen.
func (b *bed) together(hosts []*host, work func(*host) Outcome) []Outcome {
	b.t.Helper()
	outs := make([]Outcome, len(hosts))
	var wait sync.WaitGroup
	for i, h := range hosts {
		wait.Go(func() { outs[i] = work(h) })
	}
	wait.Wait()
	return outs
}

func (b *bed) hosts(names ...string) []*host {
	all := make([]*host, len(names))
	for i, name := range names {
		all[i] = b.host(name)
	}
	return all
}

// share returns how many shards a host has run.
func (b *bed) share(name string) int {
	n := 0
	for _, ran := range b.ran {
		if strings.HasPrefix(ran, name+" ") {
			n++
		}
	}
	return n
}

// Three hosts come, and each shard is run once, by whoever is free. All of them know in the end what became of the tick.
func TestHostsShareATick(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		outs := b.together(b.hosts("a", "b", "c"), func(h *host) Outcome {
			return h.work(12, 10*time.Second, func(t *Tick) { t.Wait = runner.Forever })
		})
		for _, o := range outs {
			if !o.IsDone() || !o.IsOver() || o.Done != 12 || o.Bad != nil || o.Stop != nil {
				t.Errorf("%+v", o)
			}
		}
		if len(b.ran) != 12 || b.since() > 50*time.Second {
			t.Errorf("%d runs in %v", len(b.ran), b.since())
		}
		for _, name := range []string{"a", "b", "c"} {
			if n := b.share(name); n < 3 {
				t.Errorf("%s has run %d", name, n)
			}
		}
	})
}

// A shard that fails is an outcome: the others are run, and it is not run again.
func TestAShardFails(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.fails = map[string]int{"job#2": 3, "job#4": 4}
		o := b.host("a").work(6, time.Second, rerun)
		if o.Done != 4 || o.Ended[backends.Failed] != 2 || o.BadShard != 2 || o.Bad.Ending != runner.Ran || o.Bad.Status.ExitCode() != 3 {
			t.Errorf("%+v", o)
		}
		o = b.host("b").work(6, time.Second, rerun)
		if len(b.ran) != 6 || o.BadShard != 2 || o.Bad.Ending != runner.Refused || o.Bad.Refusal.Verdict != backends.IsFailed {
			t.Errorf("%+v, %q", o, b.ran)
		}
	})
}

// A tick that was begun is over before the next one begins: its shards would be missed.
func TestTheNextTickWaitsForAnEarlierOne(t *testing.T) {
	for _, wait := range []time.Duration{0, runner.Forever} {
		inBed(t, func(t *testing.T, b *bed) {
			done := make(chan Outcome)
			go func() { done <- b.host("a").work(6, 20*time.Second, nil) }()
			time.Sleep(time.Minute)
			o := b.host("b").work(6, time.Second, func(t *Tick) { t.Trigger.Tick, t.Wait = b.tick(1), wait })
			switch {
			case wait == 0 && (o.Busy == nil || o.Busy.Verdict != backends.Held || o.Busy.Holder.Host != "a"):
				t.Errorf("%+v", o)
			case wait > 0 && !o.IsDone():
				t.Errorf("%+v", o)
			}
			if o := <-done; !o.IsDone() {
				t.Errorf("the earlier tick: %+v", o)
			}
		})
	}
}

// Under rerun, who comes for a later tick finishes the one before, also with another number of shards; under skip it is left.
func TestATickThatNobodyFinished(t *testing.T) {
	for _, policy := range []backends.Policy{backends.Skip, backends.Rerun} {
		inBed(t, func(t *testing.T, b *bed) {
			a := b.host("a")
			time.AfterFunc(30*time.Second, a.Die)
			a.work(5, 20*time.Second, func(t *Tick) { t.Trigger.OnLost = policy })
			time.Sleep(time.Minute)
			c := b.host("b")
			o := c.work(3, time.Second, func(t *Tick) { t.Trigger.Tick, t.Trigger.OnLost = b.tick(1), policy })
			if !o.IsDone() || o.Trigger.Parts != 3 {
				t.Errorf("%+v", o)
			}
			if want := map[backends.Policy]int{backends.Skip: 2 + 3, backends.Rerun: 2 + 4 + 3}[policy]; len(b.ran) != want {
				t.Errorf("%s: %d runs, want %d: %q", policy, len(b.ran), want, b.ran)
			}
			if warned := strings.Contains(c.warned, " was left with 1 of 5 shards done"); warned != (policy == backends.Skip) {
				t.Errorf("%s: warned %q", policy, c.warned)
			}
			if policy == backends.Rerun && (len(o.Before) != 1 || !o.Before[0].IsDone()) {
				t.Errorf("before: %+v", o.Before)
			}
		})
	}
}

// If an operator asks all shards to end, a host whose run is over before it hears of that begins no other.
func TestABrokenShardThatIsShort(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		a := b.host("a")
		time.AfterFunc(250*time.Millisecond, func() {
			s, err := b.store.Inspect(t.Context(), "job#0")
			if err != nil || s.Lease == nil {
				t.Error(s, err)
				return
			}
			b.store.SetBreak("job#0", backends.BreakRequest{Token: s.Lease.Token, All: true})
		})
		o := a.work(5, 500*time.Millisecond, nil)
		if o.Stop == nil || o.Stop.Ending != runner.Broken || o.Done != 1 || len(b.ran) != 1 {
			t.Errorf("%+v, ran %q", o, b.ran)
		}
	})
}
