package shards

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

func TestZZ(t *testing.T) {
	from, _ := strconv.Atoi(os.Getenv("ZZFROM"))
	n, _ := strconv.Atoi(os.Getenv("ZZN"))
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, uint64(seed)).zz() })
		})
	}
}

func (w *world) zz() {
	w.fails = map[string]int{}
	for k := range 6 {
		if w.below(4) == 0 {
			w.fails[slots.Name("job", k)] = w.below(3)
		}
	}
	deadline := time.Duration(0)
	if w.below(2) == 0 {
		deadline = 10*time.Second + w.upTo(time.Minute)
	}
	mixed := w.below(2) == 0
	hosts := 2 + w.below(4)
	var names []*host
	for i := range hosts {
		h := w.bed.host(fmt.Sprint("host", i))
		names = append(names, h)
		w.people.Go(func() {
			if w.faulty {
				h.answer = func(backends.Claim, backends.Grant, error) error {
					if w.below(6) == 0 {
						return errCut
					}
					return nil
				}
				w.people.Go(func() { w.trouble(h) })
			}
			for n := range 4 {
				if ahead := time.Until(time.Unix(w.tick(n), 0)); ahead > 0 {
					time.Sleep(ahead)
				}
				if w.below(5) == 0 {
					continue
				}
				time.Sleep(w.upTo(10 * time.Second))
				parts, takes := 1+w.below(6), w.upTo(25*time.Second)
				began := time.Now()
				o := h.work(parts, takes, func(t *Tick, r *runner.Request) {
					w.trigger(n)(t, r)
					t.Trigger.MaxAttempts = 1 + w.below(4)
					if mixed && w.below(2) == 0 {
						t.Trigger.OnLost = backends.Skip
					}
					if !w.keys {
						t.Trigger.StartDeadline = deadline
					}
					t.Parallel = 1 + w.below(3)
					if w.wait {
						t.Wait = runner.Forever
					}
					t.SameTickOnly = w.below(3) == 0
				})
				total := o.Done + o.Running + o.Open
				for state, n := range o.Ended {
					if n > 0 && (state == backends.Done || state == backends.Claimed || state == backends.Open || state == "") {
						w.t.Errorf("%d ended %q", n, state)
					}
					total += n
				}
				if total != o.Trigger.Parts {
					w.t.Errorf("%d of %d", total, o.Trigger.Parts)
				}
				if d := time.Since(began); d > time.Hour {
					w.t.Errorf("took %v: %+v", d, o)
				}
			}
		})
	}
	w.people.Go(func() {
		for range w.below(8) {
			time.Sleep(w.upTo(40 * time.Second))
			name := slots.Name("job", w.below(6))
			s, err := w.store.Inspect(context.Background(), name)
			if err != nil || s.Lease == nil {
				continue
			}
			kind := []backends.OrderKind{backends.Stop, backends.Stop, backends.Revoke}[w.below(3)]
			_ = w.store.Order(context.Background(), backends.Order{Job: name, Kind: kind, By: backends.Holder{ID: newID()}, Token: s.Lease.Token, All: kind == backends.Stop && w.below(2) == 0})
		}
	})
	w.people.Wait()
	time.Sleep(3 * ttl)
	for _, h := range names {
		if len(h.claims) > 150 || h.looks.Load() > 3000 {
			w.t.Errorf("%s: %d claims, %d looks in %v", h.name, len(h.claims), h.looks.Load(), w.since())
		}
	}
	for what, n := range w.starts {
		if n > 1 && w.policy == backends.Skip {
			w.t.Errorf("under skip %s was started %d times", what, n)
		}
	}
	jobs, _ := w.store.Jobs(context.Background())
	for _, name := range jobs {
		if s, err := w.store.Inspect(context.Background(), name); err != nil || s.Lease != nil {
			w.t.Errorf("%s is still taken: %+v, %v", name, s.Lease, err)
		}
	}
}
