package suite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
)

// forgetTick returns an order to forget a tick.
func (s *scene) forgetTick(tick int64) backends.Order {
	o := s.newOrder(backends.ForgetTick, 0)
	o.Tick = tick
	return o
}

func forgottenJob(s *scene) {
	d, other := s.open(), s.open()
	late := withTick(s.claim(), s.tick(3))
	s.abandon(d, late)
	once := s.claim()
	once.Once, once.OnLost, once.MaxAttempts = "key", backends.Skip, 1
	s.Finish(d, s.granted(d, once))
	g := s.granted(d, withTick(s.claim(), s.tick(2)))
	s.denied(other, s.newOrder(backends.ForgetJob, 0), backends.Held)
	s.Renew(d, g)
	s.Finish(d, g)
	s.ordered(other, s.newOrder(backends.ForgetJob, 0))

	status := s.inspect(d, s.job)
	r := status.Record
	if r.Token != g.Token || !r.Free() || status.Lease != nil || status.Wait != 0 {
		s.Errorf("%s, wait %v, record %s", leaseText(status.Lease), status.Wait, s.text(r))
	}
	if r.Tick.Tick != 0 || len(r.Once) > 0 || len(r.Runs) > 0 {
		s.Errorf("not forgotten: %s", s.text(r))
	}
	for _, c := range []backends.Claim{late, once, g.Claim} {
		s.refusal(d, c, backends.Abandoned)
	}
	next := s.granted(other, withTick(s.claim(), s.tick(1)))
	s.wantRun(next, s.tick(1), 1)
	if next.Token <= g.Token {
		s.Errorf("token %d after %d", next.Token, g.Token)
	}
	s.Finish(other, next)
}

// lostOrder: an order is given again because its reply was lost, at once and when the world has gone on.
func lostOrder(s *scene) {
	d, other := s.open(), s.open()
	twice := func(o backends.Order) (again func()) {
		s.Helper()
		s.loses(string(o.Kind), lossy{other}.Order(s.Context(), o))
		again = func() {
			s.Helper()
			s.untouched(other, "the same order again", func() { s.ordered(other, o) })
		}
		again()
		return again
	}
	s.Finish(d, s.granted(d, withTick(s.claim(), s.tick(1))))
	s.Finish(d, s.granted(d, withTick(s.claim(), s.tick(2))))
	again := twice(s.forgetTick(s.tick(2)))
	s.refusal(d, withTick(s.claim(), s.tick(1)), backends.IsDone)
	s.Finish(d, s.granted(d, withTick(s.claim(), s.tick(2))))
	again()
	s.refusal(d, withTick(s.claim(), s.tick(2)), backends.IsDone)
	twice(s.newOrder(backends.ForgetJob, 0))

	g := s.granted(d, s.claim())
	stop := s.newOrder(backends.Stop, g.Token)
	s.loses("stop", lossy{other}.Order(s.Context(), stop))
	s.ordered(other, stop)
	if s.Renew(d, g).Break == nil {
		s.Error("a renewal does not carry the request")
	}
	if d.Limits().LocalHolders != nil {
		s.FinishAs(d, g, backends.Outcome{State: backends.Stopped})
		return
	}
	twice(s.newOrder(backends.Revoke, g.Token))
	tombstone := s.inspect(d, s.job).Record.Token
	twice(s.newOrder(backends.ForceRelease, tombstone))
	next, err := d.Acquire(s.Context(), s.claim())
	if err != nil {
		s.Fatalf("Acquire after the tombstone was declared dead: %v", err)
	}
	s.Finish(d, next)
}

func everyOrder() []backends.OrderKind {
	return []backends.OrderKind{
		backends.Stop, backends.Revoke, backends.ForceRelease, backends.ForgetTick, backends.ForgetKey, backends.ForgetSchedule, backends.ForgetJob,
	}
}

func ordersUnknown(s *scene) {
	d := s.open()
	for _, kind := range everyOrder() {
		if err := s.give(d, s.newOrder(kind, 1)); !errors.Is(err, backends.ErrUnknownJob) {
			s.Errorf("%s: %v, want ErrUnknownJob", kind, err)
		}
	}
	if slices.Contains(s.jobs(d), s.job) {
		s.Error("an order has made a record")
	}
}

// order gives a random order about an attempt's run, in both worlds.
func (p *play) order(a *attempt) {
	p.Helper()
	kinds := []backends.OrderKind{backends.Stop, backends.ForgetTick, backends.ForgetKey, backends.ForgetSchedule, backends.ForgetJob}
	if p.store.Limits().LocalHolders == nil {
		kinds = append(kinds, backends.ForceRelease)
	}
	o := p.newOrder(pick(p.random, kinds...), 0)
	o.Key = pick(p.random, "a", "b")
	o.Tick = pick(p.random, p.tick(p.latest), p.tick(p.latest-1))
	p.compare(fmt.Sprintf("%s %s %d", o.Kind, o.Key, o.Tick), a, func(i int, d backends.Backend) any {
		o.Token = a.grants[i].Token
		err := p.give(d, o)
		if r, ok := errors.AsType[*backends.Refusal](err); ok {
			return []any{r.Verdict, r.Holder.ID, r.Tick, p.rank(i, r.Token)}
		}
		return []any{err == nil, errors.Is(err, backends.ErrOver), errors.Is(err, backends.ErrUnknownJob)}
	})
}
