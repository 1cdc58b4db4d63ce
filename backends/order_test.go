package backends_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

func (s *store) order(o backends.Order) backends.OrderDecision {
	d := backends.DecideOrder(s.view(), o)
	if d.Changed {
		s.record = d.Record
	}
	if d.Release {
		s.holder = ""
	}
	return d
}

// loseRecord makes the store forget the record and keep the lease.
func (s *store) loseRecord() { s.record = backends.Record{} }

var orders int

// ordered returns an order with an id of its own.
func ordered(kind backends.OrderKind) backends.Order {
	orders++
	return backends.Order{
		Job: "job", Kind: kind, Reason: "why",
		By: backends.Holder{ID: "order " + strconv.Itoa(orders), Host: "desk", PID: 9, User: "jo"},
	}
}

// against returns an order against the run of a token.
func against(kind backends.OrderKind, token int64) backends.Order {
	o := ordered(kind)
	o.Token = token
	return o
}

const joSays = "broken by jo on desk: why"

// orderScene is one table test: what happens first, then an order and its answer.
type orderScene struct {
	name   string
	before func(t *testing.T, s *store)
	order  func(s *store) backends.Order
	err    error                                // ErrOver, ErrUnknownJob
	refuse backends.Verdict                     // of the *Refusal
	wait   time.Duration                        // of the *Refusal
	check  func(t *testing.T, s, before *store) // what is so afterwards
}

func runOrders(t *testing.T, scenes []orderScene) {
	t.Helper()
	for _, x := range scenes {
		t.Run(x.name, func(t *testing.T) {
			s := newStore()
			s.sleep(10 * time.Minute) // ticks 0 to 10 are due
			if x.before != nil {
				x.before(t, s)
			}
			before := *s
			o := x.order(s)
			d := s.order(o)
			refusal, refused := errors.AsType[*backends.Refusal](d.Err)
			switch {
			case x.refuse != "" && (!refused || refusal.Verdict != x.refuse || refusal.Wait != x.wait):
				t.Fatalf("%+v, want %s for %v", d.Err, x.refuse, x.wait)
			case x.refuse == "" && !errors.Is(d.Err, x.err):
				t.Fatalf("%v, want %v", d.Err, x.err)
			}
			if d.Err != nil {
				if diff := cmp.Diff(before.record, d.Record); d.Changed || d.Release || diff != "" {
					t.Errorf("changed %v, released %v with %v:\n%s", d.Changed, d.Release, d.Err, diff)
				}
			} else if again := s.order(o); again.Err != nil || again.Changed || again.Release {
				t.Errorf("the same order again: %+v, want nothing to be done", again)
			}
			if x.check != nil {
				x.check(t, s, &before)
			}
		})
	}
}

// latest makes orders against the run that the record shows.
func latest(kind backends.OrderKind) func(s *store) backends.Order {
	return func(s *store) backends.Order { return against(kind, s.record.Token) }
}

// leased makes orders against the run that the lease shows.
func leased(kind backends.OrderKind) func(s *store) backends.Order {
	return func(s *store) backends.Order { return against(kind, s.token) }
}

func plain(kind backends.OrderKind) func(s *store) backends.Order {
	return func(*store) backends.Order { return ordered(kind) }
}

// The suite has orders about unknown jobs, and for other runs than the present one.
func TestOrdersThatChangeNothing(t *testing.T) {
	var scenes []orderScene
	for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke, backends.ForceRelease} {
		scenes = append(scenes,
			orderScene{name: string(kind) + " a free job", before: after(backends.Done, by("a")), order: latest(kind), err: backends.ErrOver},
			orderScene{
				name:   string(kind) + " a job that nobody has run",
				before: func(_ *testing.T, s *store) { s.abandon(by("a")) }, order: latest(kind), err: backends.ErrOver,
			},
			orderScene{
				name: string(kind) + " another token than the lease's, the record is lost", err: backends.ErrOver,
				before: func(t *testing.T, s *store) { grant(t, s, by("a")); s.loseRecord() },
				order:  func(s *store) backends.Order { return against(kind, s.token-1) },
			},
			// The hazard: the lease of a run that nobody meant is taken away.
			orderScene{
				name: string(kind) + " the record's run, and an earlier one has the lease", err: backends.ErrOver,
				before: func(t *testing.T, s *store) { grant(t, s, by("a")); s.token-- }, order: latest(kind),
			},
			orderScene{
				name: string(kind) + " the lease's run, and the record knows a later one", err: backends.ErrOver,
				before: func(t *testing.T, s *store) { grant(t, s, by("a")); s.token-- }, order: leased(kind),
			})
	}
	for _, kind := range []backends.OrderKind{backends.ForgetTick, backends.ForgetKey, backends.ForgetSchedule} {
		scenes = append(scenes, orderScene{name: string(kind) + " without one", before: after(backends.Done, by("a")), order: plain(kind), err: backends.ErrOver})
	}
	scenes = append(scenes,
		orderScene{
			name:   "revoke, and the record is lost",
			before: func(t *testing.T, s *store) { grant(t, s, by("a")); s.loseRecord() },
			order:  leased(backends.Revoke), err: backends.ErrLags,
		},
		orderScene{
			name:   "revoke, and the record is rolled back",
			before: func(t *testing.T, s *store) { grant(t, s, by("a")); s.record.Token-- },
			order:  leased(backends.Revoke), err: backends.ErrLags,
		})
	for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke} {
		scenes = append(scenes,
			orderScene{name: string(kind) + " a run that expired", before: afterDeath(by("a")), order: latest(kind), err: backends.ErrOver},
			orderScene{
				name:   string(kind) + " a run whose lease vanished",
				before: func(t *testing.T, s *store) { grant(t, s, by("a")); s.sleep(time.Second); s.vanish() },
				order:  latest(kind), refuse: backends.Vanished, wait: ttl - time.Second,
			},
			orderScene{
				name:   string(kind) + " a run whose lock is free",
				before: func(t *testing.T, s *store) { s.proof = backends.ByRelease; grant(t, s, by("a")); s.vanish() },
				order:  latest(kind), err: backends.ErrOver,
			})
	}
	runOrders(t, scenes)
	if d := backends.DecideOrder(backends.View{Record: backends.Record{Job: "job"}}, ordered("dance")); d.Err == nil || d.Changed {
		t.Errorf("an order that nobody knows: %+v", d)
	}
	anonymous := ordered(backends.ForgetJob)
	anonymous.By.ID = ""
	if d := backends.DecideOrder(backends.View{Record: backends.Record{Job: "job"}}, anonymous); d.Err == nil || d.Changed {
		t.Errorf("an order without an id: %+v", d)
	}
}

func TestForceRelease(t *testing.T) {
	lost := func(t *testing.T, s *store, before *store) {
		t.Helper()
		if run := s.record.Runs[0]; run.State != backends.Lost || run.Note != joSays || run.Ended != 0 {
			t.Errorf("history %+v", run)
		}
		if d := s.acquire(by("b")); d.Grant == nil || d.Grant.Token <= before.token {
			t.Errorf("not free at once with a higher token: %+v", d)
		}
		g := backends.Grant{Claim: by("a"), Token: before.token, TTL: ttl}
		if r := s.renew(g); !r.Lost {
			t.Error("it renews")
		}
		if e := s.finish(g, backends.Done); !e.Lost {
			t.Error("its end is recorded after the next grant")
		}
	}
	var scenes []orderScene
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat, backends.ByRelease} {
		begin := func(t *testing.T, s *store) { t.Helper(); s.proof = proof; grant(t, s, by("a")) }
		scenes = append(scenes,
			orderScene{name: fmt.Sprint("with a lease ", proof), before: begin, order: latest(backends.ForceRelease), check: lost},
			orderScene{
				name: fmt.Sprint("vanished ", proof), order: latest(backends.ForceRelease), check: lost,
				before: func(t *testing.T, s *store) { begin(t, s); s.vanish() },
			},
			orderScene{
				name: fmt.Sprint("expired ", proof), order: latest(backends.ForceRelease), check: lost,
				before: func(t *testing.T, s *store) { begin(t, s); s.sleep(ttl) },
			},
			orderScene{
				name: fmt.Sprint("lost record ", proof), order: leased(backends.ForceRelease), check: lost,
				before: func(t *testing.T, s *store) { begin(t, s); s.loseRecord() },
			})
	}
	runOrders(t, scenes)
}

// The operator was wrong: the holder lives, and reports its end before anybody was granted. What it says is true.
func TestForceReleasedHolderFinishes(t *testing.T) {
	s := newStore()
	g := grant(t, s, rerun(forTick("a", 0)))
	s.order(against(backends.ForceRelease, g.Token))
	if r := s.renew(g); !r.Lost {
		t.Error("it renews")
	}
	if e := s.finish(g, backends.Done); e.Lost || s.record.Runs[0].State != backends.Done {
		t.Errorf("%+v", e)
	}
	if d := s.acquire(rerun(forTick("b", 0))); d.Refusal == nil || d.Refusal.Verdict != backends.IsDone {
		t.Errorf("what is done runs again: %+v", d)
	}
}

// An order may arrive twice, the second time when the tick has been run again. It must not run a third time.
func TestRepeatedOrderComesLate(t *testing.T) {
	s := newStore()
	s.sleep(10 * time.Minute)
	after(backends.Done, forTick("a", 2), forTick("b", 3))(t, s)
	o := forgetTick(tick(3))
	s.order(o)
	ran(t, s, forTick("c", 3), backends.Done)
	if d := s.order(o); d.Err != nil || d.Changed {
		t.Errorf("%+v", d)
	}
	if d := s.acquire(forTick("d", 3)); d.Refusal == nil || d.Refusal.Verdict != backends.IsDone {
		t.Errorf("the tick runs a third time: %+v", d)
	}
	for range backends.KeptOrders + 5 {
		s.order(ordered(backends.ForgetJob))
	}
	if n := len(s.record.Orders); n != backends.KeptOrders {
		t.Errorf("%d orders are kept", n)
	}
}
