package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/suite"
)

// memStore makes a store in memory one that commands open.
type memStore struct {
	*suite.Mem
	meanwhile func()        // what comes between a look and an order
	slow      time.Duration // how long the reply to an order takes
	look      time.Duration // how long one takes
	orders    int           // so many have come
}

func (s *memStore) Inspect(ctx context.Context, job string) (backends.Status, error) {
	time.Sleep(s.look)
	return s.Mem.Inspect(ctx, job)
}

func (s *memStore) Order(ctx context.Context, o backends.Order) error {
	s.orders++
	if s.meanwhile != nil {
		s.meanwhile()
	}
	err := s.Mem.Order(ctx, o)
	time.Sleep(s.slow)
	return err
}

func (*memStore) Redacted() string                                          { return "mem:" }
func (*memStore) Prefix() string                                            { return "" }
func (*memStore) Examine(context.Context, time.Duration) []backends.Finding { return nil }

const deskTTL = 15 * time.Second

// desk is an operator at a terminal, in virtual time.
type desk struct {
	*testing.T
	*cli.Call
	store *memStore
	said  bytes.Buffer
}

func atDesk(t *testing.T, proof backends.Proof, f func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{T: t, store: &memStore{Mem: suite.NewMem(nil)}}
		d.store.Proof = proof
		nothing := func(string) (string, bool) { return "", false }
		d.Call = &cli.Call{Settings: cli.NewSettings(nothing), Console: &cli.Console{Out: &d.said, Level: slog.LevelWarn, Terminal: true}}
		defer d.Console.Close()
		f(d)
	})
}

// claimed is a run of a tick that began some minutes ago.
func (d *desk) claimed(id string, minutesAgo int64) backends.Grant {
	d.Helper()
	c := backends.Claim{Job: "j", Holder: backends.Holder{ID: id, Host: "web1", PID: 7}, TTL: deskTTL}
	c.Tick, c.OnLost, c.MaxAttempts = time.Now().Unix()-60*minutesAgo, backends.Skip, 1
	g, err := d.store.Acquire(d.Context(), c)
	if err != nil {
		d.Fatal(err)
	}
	return g
}

func (d *desk) done(g backends.Grant) {
	d.Helper()
	if err := d.store.Finish(d.Context(), g, backends.Outcome{State: backends.Done}); err != nil {
		d.Fatal(err)
	}
}

// breaking is a break after its first look.
func (d *desk) breaking(kind backends.OrderKind, forget ...backends.OrderKind) (*breaking, backends.Status) {
	d.Helper()
	b := &breaking{Call: d.Call, store: d.store, job: "j", wait: runner.Forever, kind: kind}
	for _, kind := range forget {
		b.forget = append(b.forget, backends.Order{Job: "j", Kind: kind})
	}
	s, err := inspectJob(d.Context(), b.store, b.job)
	if err != nil {
		d.Fatal(err)
	}
	b.mean(s)
	return b, s
}

func (d *desk) wantFault(err error, code int, text string) {
	d.Helper()
	if f, ok := errors.AsType[*cli.Fault](err); !ok || f.Code != code || !strings.Contains(f.Error(), text) {
		d.Errorf("%v, want %q and code %d", err, text, code)
	}
}

// endRun ends a run and waits for its end.
func (d *desk) endRun(b *breaking, s backends.Status) error {
	run, err := b.endRun(d.Context(), s)
	if run == nil || err != nil {
		return err
	}
	return b.await(d.Context(), run, nil)
}

// The hazard: the lease is taken away before the holder has written its record anew, and its tick runs again; or the tick
// that is to be forgotten afterwards is not the one that ran.
func TestForceWaitsForALostRecord(t *testing.T) {
	for name, lost := range map[string]func(d *desk, g backends.Grant){
		"before the look": func(d *desk, _ backends.Grant) { d.store.DeleteRecord("j") },
		"after the look": func(d *desk, _ backends.Grant) {
			d.store.meanwhile = func() {
				if d.store.orders == 1 {
					d.store.DeleteRecord("j")
				}
			}
		},
		"before the look, and written anew before the order": func(d *desk, g backends.Grant) {
			d.store.DeleteRecord("j")
			d.store.meanwhile = func() { _, _ = d.store.Renew(d.Context(), g) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, backends.ByUntil, func(d *desk) {
				g := d.claimed("a", 1)
				lost(d, g)
				time.AfterFunc(deskTTL/3, func() { _, _ = d.store.Renew(d.Context(), g) })
				b, s := d.breaking(backends.Revoke, backends.ForgetTick)
				if err := d.endRun(b, s); err != nil {
					d.Fatal(err)
				}
				s, err := d.store.Inspect(d.Context(), "j")
				if err != nil || s.Lease != nil || s.Record.Tick.Tick != g.Tick || s.Record.Tick.State != backends.Stopped {
					d.Errorf("%+v, %v", s, err)
				}
				if tick := b.forget[0].Tick; tick != g.Tick {
					d.Errorf("it is to forget tick %d, want %d", tick, g.Tick)
				}
				if d.store.orders > 2 {
					d.Errorf("%d orders: one that says when to repeat it is not repeated at once", d.store.orders)
				}
			})
		})
	}
}

// A holder that is cut off from the backend never renews: break does not hang.
func TestForceGivesUpOnALostRecord(t *testing.T) {
	for wait, most := range map[time.Duration]time.Duration{0: 0, 2 * time.Second: 3 * time.Second, runner.Forever: 16 * time.Second} {
		atDesk(t, backends.ByUntil, func(d *desk) {
			holder := backends.Holder{ID: "a", Host: "web1", PID: 7}
			if _, err := d.store.Acquire(d.Context(), backends.Claim{Job: "j", Holder: holder, TTL: time.Hour}); err != nil {
				d.Fatal(err)
			}
			d.store.DeleteRecord("j")
			b, s := d.breaking(backends.Revoke)
			b.wait = wait
			began := time.Now()
			d.wantFault(d.endRun(b, s), cli.CodeUnavailable, "j: its record was lost")
			if took := time.Since(began); took > most {
				d.Errorf("--wait %v: gave up after %v, want at most %v", wait, took, most)
			}
		})
	}
}

// The hazard: while the operator reads which tick went wrong, the next one runs, and is forgotten in its place.
func TestForgetTickMeansTheOneThatWasSeen(t *testing.T) {
	atDesk(t, backends.ByUntil, func(d *desk) {
		first := d.claimed("a", 2)
		d.done(first)
		b, _ := d.breaking("", backends.ForgetTick)
		next := d.claimed("b", 1)
		d.done(next)
		d.wantFault(b.forgetPart(d.Context(), b.forget[0]), cli.CodeNotRun, "j: the tick "+cli.TickText(first.Tick)+" is not the recorded one any more")

		b, _ = d.breaking("", backends.ForgetTick)
		if err := b.forgetPart(d.Context(), b.forget[0]); err != nil {
			d.Fatal(err)
		}
		d.Console.Close()
		if want := "the tick " + cli.TickText(next.Tick) + " of j is forgotten"; !strings.Contains(d.said.String(), want) {
			d.Errorf("said %q, want %q", d.said.String(), want)
		}
	})
}

// What is forgotten of a holder whose lease is gone is forgotten when it cannot live any more: not before, also where
// only silence tells, and not never.
func TestForgetWaitsForTheDead(t *testing.T) {
	for name, forget := range map[string]func(d *desk) error{
		"forget": func(d *desk) error { return forget(d.Context(), d.Call, d.store, "j") },
		"break --forget-tick": func(d *desk) error {
			b, _ := d.breaking("", backends.ForgetTick)
			return b.forgetPart(d.Context(), b.forget[0])
		},
	} {
		for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
			t.Run(name, func(t *testing.T) {
				atDesk(t, proof, func(d *desk) {
					d.claimed("a", 1)
					d.store.DeleteLease("j")
					began := time.Now()
					if err := forget(d); err != nil {
						d.Fatal(err)
					}
					if took := time.Since(began); took < deskTTL || took > deskTTL+2*time.Second {
						d.Errorf("proof %d: forgotten after %v, want %v", proof, took, deskTTL)
					}
					d.Console.Close()
					if n := strings.Count(d.said.String(), "waiting 15s: the lease of web1, process 7 vanished"); n != 1 {
						d.Errorf("told %d times: %q", n, d.said.String())
					}
				})
			})
		}
	}
}

// The hazard: the silence is counted from before the reply that showed the last beat, which may have come in between.
func TestSilenceCountsFromTheReply(t *testing.T) {
	atDesk(t, backends.ByBeat, func(d *desk) {
		d.claimed("a", 1)
		d.store.DeleteLease("j")
		d.store.slow = 700 * time.Millisecond
		began := time.Now()
		b, _ := d.breaking("", backends.ForgetTick)
		if err := b.forgetPart(d.Context(), b.forget[0]); err != nil {
			d.Fatal(err)
		}
		if took, least := time.Since(began), d.store.slow+deskTTL+d.store.slow; took < least {
			d.Errorf("forgotten after %v, want at least %v", took, least)
		}
	})
}

// A new sign of life begins the wait anew, and forget is not there to wait for the living.
func TestForgetLeavesTheLivingAlone(t *testing.T) {
	atDesk(t, backends.ByBeat, func(d *desk) {
		d.claimed("a", 2)
		d.store.DeleteLease("j")
		time.AfterFunc(deskTTL-time.Second/2, func() {
			by := backends.Holder{ID: "order"}
			s, _ := d.store.Inspect(d.Context(), "j")
			_ = d.store.Mem.Order(d.Context(), backends.Order{Job: "j", Kind: backends.ForceRelease, By: by, Token: s.Record.Token})
			d.claimed("b", 1)
			d.store.DeleteLease("j")
		})
		began := time.Now()
		d.wantFault(forget(d.Context(), d.Call, d.store, "j"), cli.CodeNotRun, "j: the lease of web1, process 7 vanished")
		if took := time.Since(began); took < deskTTL-time.Second || took > deskTTL+aLittle {
			d.Errorf("gave up after %v", took)
		}
		if s, err := d.store.Inspect(d.Context(), "j"); err != nil || len(s.Record.Runs) != 2 {
			d.Errorf("%+v, %v", s.Record, err)
		}
	})
}

// The hazard: a look at all shards takes so long that none is seen to run, and the operator is told that nobody works on them.
func TestBreakLooksTwiceAtManyShards(t *testing.T) {
	const all = 40
	atDesk(t, backends.ByUntil, func(d *desk) {
		run := func(key string, shard int, takes time.Duration) (asked bool) {
			c := backends.Claim{Job: slots.Name("j", shard), Holder: backends.Holder{ID: fmt.Sprint(key, shard), Host: "web1", PID: 7}, TTL: deskTTL}
			c.Once, c.OnLost, c.MaxAttempts, c.Parts = key, backends.Skip, 1, all
			g, err := d.store.Acquire(d.Context(), c)
			if err != nil {
				d.Error(err)
				return true
			}
			time.Sleep(takes)
			d.done(g)
			return backends.CacheOf(g).Asked() != nil
		}
		for shard := range all { // so all have a record
			run("before", shard, 0)
		}
		run("now", 0, 0)
		d.store.look = time.Second / 2
		stopped := make(chan int, 1)
		go func() {
			time.Sleep(5 * d.store.look) // break has looked at the first ones, and is ahead of whoever runs them
			for shard := 1; shard < all; shard++ {
				if run("now", shard, 3*time.Second) {
					stopped <- shard
					return
				}
			}
			stopped <- all
		}()
		b := &breaking{Call: d.Call, store: d.store, job: "j", wait: runner.Forever, kind: backends.Stop}
		names, err := expand(d.Context(), d.store, "j")
		if err == nil {
			err = b.endAll(d.Context(), names)
		}
		if at := <-stopped; err != nil || at > 5 || strings.Contains(d.said.String(), "nobody") {
			d.Errorf("stopped with shard %d of %d, %v: %s", at, all, err, d.said.String())
		}
	})
}
