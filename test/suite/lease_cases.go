package suite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func refusesHeld(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, s.claim())
	for _, d := range []backends.Backend{d, other} {
		r := s.refusal(d, s.claim(), backends.Held)
		if r.Holder.ID != g.Claim.Holder.ID || r.Holder.Host != g.Claim.Holder.Host || r.Token != g.Token {
			s.Errorf("held by %v with token %d, want %v with token %d", r.Holder, r.Token, g.Claim.Holder, g.Token)
		}
		if most := d.Limits().TakeOver(g.TTL); r.Wait <= 0 || r.Wait > most {
			s.Errorf("held for %v, want more than 0 and at most %v", r.Wait, most)
		}
	}
	s.Finish(d, g)
}

func sameHolderSameGrant(s *scene) {
	d, c := s.open(), withTick(s.claim(), s.tick(1))
	_, err := lossy{d}.Acquire(s.Context(), c)
	for quarantined(err) {
		s.ask(d, s.otherJob())
		_, err = lossy{d}.Acquire(s.Context(), c)
	}
	s.loses("Acquire", err)
	before := s.inspect(d, s.job)
	time.Sleep(slack)
	g := s.granted(d, c)
	after := s.inspect(d, s.job)
	if g.Token != before.Record.Token || g.Tick != c.Tick || g.Attempt != 1 {
		s.Errorf("token %d, tick %d, attempt %d; want those of the first reply: %d, %d, 1",
			g.Token, g.Tick, g.Attempt, before.Record.Token, c.Tick)
	}
	if after.Record.Until <= before.Record.Until || after.Record.Beat <= before.Record.Beat {
		s.Errorf("until %d, beat %d; want more than %d, %d: the lease is renewed in the same step",
			after.Record.Until, after.Record.Beat, before.Record.Until, before.Record.Beat)
	}
	if n := len(after.Record.Runs); n != 1 {
		s.Errorf("%d runs in the history, want 1", n)
	}
	s.Finish(d, g)
}

func quarantined(err error) bool {
	r, ok := errors.AsType[*backends.Refusal](err)
	return ok && r.Verdict == backends.Quarantined
}

func (s *scene) otherJob() backends.Claim {
	c := s.claim()
	c.Job += " other"
	return c
}

func renewalExtends(s *scene) {
	d := s.open()
	g := s.granted(d, s.claim())
	before := s.inspect(d, s.job)
	time.Sleep(2 * slack)
	s.Renew(d, g)
	after := s.inspect(d, s.job)
	if after.Record.Until <= before.Record.Until || after.Record.Beat <= before.Record.Beat {
		s.Errorf("until %d, beat %d; want more than %d, %d",
			after.Record.Until, after.Record.Beat, before.Record.Until, before.Record.Beat)
	}
	if after.Lease == nil || after.Lease.Holder != g.Claim.Holder.ID || after.Lease.Token != g.Token {
		s.Errorf("%s, want holder %s, token %d", leaseText(after.Lease), g.Claim.Holder.ID, g.Token)
	}
	s.Finish(d, g)
}

// renewalCounts: nobody is granted before a TTL has passed since the last renewal was sent.
func renewalCounts(s *scene) {
	d, other := s.open(), s.open()
	for {
		claimed := time.Now() // the lease may be as old as that
		g := s.granted(d, s.brief())
		time.Sleep(g.TTL / 2)
		sent := time.Now()
		_, err := d.Renew(s.Context(), g)
		if errors.Is(err, backends.ErrLost) && time.Since(claimed) > g.TTL/2+g.TTL/4 {
			s.onceMore("renew a lease of ", g.TTL) // this machine slept, or the store let the claim wait
			continue
		}
		if err != nil {
			s.Fatalf("Renew: %v", err)
		}
		waits := s.expire(g)
		next := s.after(other, s.claim())
		if life := time.Since(sent); waits && life < g.TTL-slack {
			s.Errorf("somebody else was granted %v after a renewal, want at least %v", life, g.TTL)
		}
		s.Finish(other, next)
		return
	}
}

// onceMore lets a case that has lost a race against a busy machine begin again, with another job. It fails the case after
// thirty times, which a store that is too slow needs too, and when the tests' own limit leaves no time.
func (s *scene) onceMore(what ...any) {
	s.Helper()
	const most = 30
	const round = 10 // of its leases
	end, limited := s.Deadline()
	if s.again++; s.again > most || limited && time.Until(end) < s.h.Settle+round*s.h.TTL {
		s.Fatal("this machine, or the store, is too busy to ", fmt.Sprint(what...))
	}
	s.job = s.otherJob().Job
}

func lostRenewal(s *scene) {
	d := s.open()
	g := s.granted(d, s.claim())
	_, err := lossy{d}.Renew(s.Context(), g)
	s.loses("Renew", err)
	s.Renew(d, g)
	s.refusal(d, s.claim(), backends.Held)
	s.Finish(d, g)
}

// forged returns grants that are almost g.
func forged(g backends.Grant) []backends.Grant {
	older, newer, other := g, g, g
	older.Token--
	newer.Token++
	other.Claim.Holder.ID = NewID()
	return []backends.Grant{older, newer, other}
}

func staleRenew(s *scene) {
	d, other := s.open(), s.open()
	old := s.granted(d, s.claim())
	s.Finish(d, old)
	s.untouched(d, "a renewal after Finish", func() {
		s.tooLate("Renew after Finish", func() error { _, err := d.Renew(s.Context(), old); return err })
	})
	g := s.granted(other, s.claim())
	for _, stale := range append(forged(g), old) {
		for _, d := range []backends.Backend{d, other} {
			s.untouched(other, "a stale renewal", func() {
				s.tooLate("stale Renew", func() error { _, err := d.Renew(s.Context(), stale); return err })
			})
		}
	}
	s.Renew(other, g)
	s.Finish(other, g)
}

// renewNeverRevives: a renewal on its way while the run finishes must not bring the lease back.
func renewNeverRevives(s *scene) {
	d, other := s.open(), s.open()
	for range 20 {
		g := s.granted(d, s.claim())
		var (
			all      sync.WaitGroup
			finished atomic.Bool
			renewed  = make(chan struct{}, 1)
		)
		for range 3 {
			all.Go(func() {
				for !finished.Load() {
					_, err := d.Renew(s.Context(), g)
					if err != nil && !errors.Is(err, backends.ErrLost) {
						s.Errorf("Renew: %v", err)
					}
					select {
					case renewed <- struct{}{}:
					default:
					}
					time.Sleep(rand.N(time.Millisecond)) // who finishes gets a turn
				}
			})
		}
		<-renewed // they are at it
		s.Finish(d, g)
		finished.Store(true)
		all.Wait()
		next, err := other.Acquire(s.Context(), s.claim())
		if err != nil {
			s.Fatalf("Acquire after Finish: %v", err)
		}
		s.Finish(other, next)
	}
}

func tokenGrows(s *scene) {
	d, other := s.open(), s.open()
	first := s.granted(d, s.claim())
	s.Finish(d, first)
	last := first.Token
	grows := func(how string, g backends.Grant) {
		s.Helper()
		if g.Token <= last {
			s.Errorf("token %d after %d, over %s", g.Token, last, how)
		}
		last = g.Token
	}
	for range 10 {
		g := s.granted(d, s.claim())
		grows("a release", g)
		s.Finish(d, g)
	}
	g := s.granted(other, s.brief())
	grows("a release", g)
	s.expire(g)
	g = s.after(d, s.claim())
	grows("expiry", g)
	s.Finish(d, g)

	c := s.claim()
	c.Floor = last + 1_000_000_000
	g = s.granted(d, c)
	last = c.Floor
	grows("the claimant's floor", g)
	s.Finish(d, g)
	g = s.granted(other, s.claim())
	grows("a floor of somebody else", g)
	if s.h.DeleteLease != nil {
		s.h.DeleteLease(s.T, s.job)
		s.Finish(other, g)
		g = s.granted(d, s.claim())
		grows("a lease that vanished", g)
		s.Finish(d, g)
		return
	}
	s.Finish(other, g)
}

func tokenOutlivesRecord(s *scene) {
	d := s.open()
	g := s.granted(d, s.claim())
	s.Finish(d, g)
	s.h.DeleteRecord(s.T, s.job)
	time.Sleep(slack)
	next := s.granted(d, s.claim())
	if next.Token <= g.Token {
		s.Errorf("token %d after %d", next.Token, g.Token)
	}
	s.Finish(d, next)
}

func expiryHandsOver(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, s.brief())
	s.expire(g)
	next := s.after(other, s.claim())
	if next.Token <= g.Token {
		s.Errorf("token %d after %d", next.Token, g.Token)
	}
	s.tooLate("Renew of the dead holder", func() error { _, err := d.Renew(s.Context(), g); return err })
	runs := s.inspect(other, s.job).Record.Runs
	if len(runs) != 2 || runs[1].State != backends.Lost || runs[1].Ended != 0 {
		s.Errorf("history %+v, want the first run lost", runs)
	}
	s.Finish(other, next)
}

func renewRestores(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, s.claim())
	s.h.DeleteRecord(s.T, s.job)
	s.Renew(d, g)
	if r := s.inspect(d, s.job).Record; r.Token != g.Token || r.Holder.ID != g.Claim.Holder.ID || r.Job != s.job || r.Free() {
		s.Errorf("record %s", s.text(r))
	}
	s.refusal(other, s.claim(), backends.Held)
	s.Finish(d, g)
	next := s.granted(other, s.claim())
	if next.Token <= g.Token {
		s.Errorf("token %d after %d", next.Token, g.Token)
	}
	s.Finish(other, next)
}

// restoredRanOnce: the record is deleted during a run for a tick, and for a key. The holder writes it anew, by a
// renewal or only at its end, and nobody starts the same again.
func restoredRanOnce(s *scene) {
	for i, renewed := range []bool{true, false} {
		for _, once := range []string{"", "key"} {
			s.job = s.otherJob().Job
			d, other := s.open(), s.open()
			again := func() backends.Claim {
				c := withTick(s.claim(), s.tick(int64(i)))
				if once != "" {
					c.Tick, c.Once = 0, once
				}
				return c
			}
			g := s.granted(d, again())
			s.h.DeleteRecord(s.T, s.job)
			if renewed {
				s.Renew(d, g)
			}
			s.Finish(d, g)
			s.refusal(other, again(), backends.IsDone)
		}
	}
}

// vanishedIsWaitedFor: an operator or an eviction removed the lease of a live holder. Neither who has watched
// it nor who comes later with a shorter TTL is granted before a TTL has passed since the last renewal.
func vanishedIsWaitedFor(s *scene) {
	for _, newcomer := range []bool{false, true} {
		s.job = s.otherJob().Job
		for {
			d, other := s.open(), s.open()
			c := s.claim()
			if newcomer {
				c.TTL = max(s.h.TTL/2, other.Limits().MinTTL)
			}
			began := time.Now()
			g := s.granted(d, s.brief())
			if !newcomer {
				_, refusal := s.ask(other, c)
				if time.Since(began) < g.TTL/2 && (refusal == nil || refusal.Verdict != backends.Held) {
					s.Fatalf("Acquire while it is held: %+v", refusal)
				}
			}
			time.Sleep(g.TTL / 4)
			sent := time.Now()
			if sent.Sub(began) > 3*g.TTL/4 {
				s.onceMore("renew a lease of ", g.TTL, " in time: ", sent.Sub(began))
				continue
			}
			_, err := d.Renew(s.Context(), g)
			renewed := time.Since(began)
			s.h.DeleteLease(s.T, s.job)
			_, refusal := other.Acquire(s.Context(), c)
			if renewed >= g.TTL || time.Since(sent) > g.TTL/2 { // this machine slept
				s.onceMore("take a lease of ", g.TTL, " away: ", time.Since(sent), ", ", err, ", ", refusal)
				continue
			}
			if err != nil {
				s.Fatalf("Renew: %v", err)
			}
			if r, ok := errors.AsType[*backends.Refusal](refusal); !ok || r.Verdict != backends.Vanished || r.Wait <= 0 {
				s.Fatalf("Acquire right after the lease vanished: %+v, want vanished and how long to wait", refusal)
			}
			s.tooLate("Renew after the lease vanished", func() error { _, err := d.Renew(s.Context(), g); return err })
			s.provesBySilence(other)
			next := s.after(other, c)
			if life := time.Since(sent); life < g.TTL-slack {
				s.Errorf("newcomer %v: granted %v after a renewal, want at least %v", newcomer, life, g.TTL)
			}
			if next.Token <= g.Token {
				s.Errorf("token %d after %d", next.Token, g.Token)
			}
			s.Finish(other, next)
			break
		}
	}
}

// provesBySilence checks what the store says of itself: the time that a newcomer has to wait for a holder that has vanished stays the
// same where death is proved by silence, and else it gets shorter.
func (s *scene) provesBySilence(d backends.Backend) {
	s.Helper()
	look := func() time.Duration {
		status, err := d.Look(s.Context(), s.job)
		if err != nil {
			s.Errorf("Look: %v", err)
		}
		return status.Wait
	}
	before := look()
	time.Sleep(20 * time.Millisecond)
	if after := look(); before > 0 && (after == before) != d.Limits().BySilence {
		s.Errorf("by silence: %v, and a newcomer waits %v, and then %v", d.Limits().BySilence, before, after)
	}
}

// Whoever comes from another host waits until the reservation is over. The host itself does not, and then it counts anew.
func reservationKeeps(s *scene) {
	const hold = 4 * time.Second // a busy machine asks in time, as a rule
	d, other := s.open(), s.open()
	from := func(host string) backends.Claim {
		c := s.claim()
		c.Holder.Host, c.MinHold = host, hold
		return c
	}
	for rounds := 0; rounds < 2; rounds++ {
		began := time.Now()
		granted := s.granted(d, from("web1"))
		s.Finish(d, granted)
		g, r := s.ask(other, from("web2"))
		if time.Since(began) >= hold { // it may be over
			s.onceMore("ask within ", hold, " of a grant")
			rounds = -1
			continue
		}
		if r == nil || r.Verdict != backends.Reserved {
			s.Fatalf("Acquire: %+v, %+v, want %s", g, r, backends.Reserved)
		}
		if r.Wait <= 0 || r.Wait > hold || r.Holder.Host != "web1" || r.Token != granted.Token {
			s.Errorf("%+v, want the job kept for web1, for at most %v", *r, hold)
		}
	}
	record := s.inspect(other, s.job).Record
	if r := record.Reserved; r == nil || r.Host != "web1" || r.Until != record.Granted+hold.Milliseconds() {
		s.Errorf("the reservation is %+v, want it to end %v after %d", r, hold, record.Granted)
	}
	time.Sleep(hold + slack)
	unreserved := from("web2")
	unreserved.MinHold = 0
	s.Finish(other, s.granted(other, unreserved))
	s.Finish(d, s.granted(d, from("web1")))
}
