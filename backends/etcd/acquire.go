package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// Acquire implements backends.Driver. A first claim takes two round trips: a new lease of etcd's is asked for
// while the keys are read, and one transaction writes the decision. Who has already been refused reads first,
// because the next answer is probably the same: three round trips when it is not.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	spare := &spare{driver: d, ttl: c.TTL}
	defer spare.discard(ctx)
	if c.Seen == (backends.Evidence{}) {
		spare.request(ctx)
	}
	g, err := d.acquire(ctx, c, spare)
	if err != nil {
		return backends.Grant{}, backends.About("claim", c.Job, err)
	}
	return g, nil
}

func (d *Driver) acquire(ctx context.Context, c backends.Claim, spare *spare) (backends.Grant, error) {
	s, err := d.read(ctx, c.Job)
	if err != nil {
		return backends.Grant{}, err
	}
	for {
		if s.foreign != nil {
			return backends.Grant{}, s.foreign
		}
		decision, lease, err := d.decide(ctx, s, c, spare)
		if err != nil {
			return backends.Grant{}, err
		}
		if decision.Grant == nil && !decision.Changed {
			return backends.Grant{}, decision.Refusal
		}
		now, done, err := d.carryOut(ctx, s, c, decision, lease, spare)
		switch {
		case err != nil:
			return backends.Grant{}, err
		case !done:
			s = now // what was decided on is no more
		case decision.Grant == nil:
			return backends.Grant{}, decision.Refusal
		default:
			return granted(c, decision, now, lease), nil
		}
	}
}

// decide answers a claim. A grant comes with the lease of etcd's that it is to be under, and has its TTL: that
// is how long others wait for the holder if it vanishes.
func (d *Driver) decide(ctx context.Context, s *state, c backends.Claim, spare *spare) (backends.Decision, int64, error) {
	decision := backends.Decide(s.view(c.TTL), c)
	if decision.Grant == nil {
		return decision, 0, nil
	}
	var lease int64
	var ttl time.Duration
	var err error
	if s.heldBy(c.Holder.ID) { // an earlier reply was lost
		lease = s.lease
		if lease == spare.id { // of this very claim, whose transaction was said not to be applied
			spare.used = true
		}
		ttl, err = d.keepAlive(ctx, lease)
	} else {
		lease, ttl, err = spare.get(ctx)
	}
	if err != nil {
		return decision, 0, err
	}
	c.TTL = ttl
	return backends.Decide(s.view(c.TTL), c), lease, nil
}

// carryOut writes a decision, as swap does: with the lease key, if it is not there already.
func (d *Driver) carryOut(ctx context.Context, s *state, c backends.Claim, decision backends.Decision, lease int64, spare *spare) (now *state, done bool, err error) {
	change := change{record: decision.Record, alive: decision.Grant != nil}
	if decision.Grant == nil || s.held {
		return d.swap(ctx, c.Job, s, change)
	}
	label := backends.LabelOf(*decision.Grant)
	change.more = []rpc.Op{{Put: &rpc.Put{Key: d.cfg.keys(c.Job).lease, Value: backends.Marshal(label), Lease: lease}}}
	now, done, err = d.swap(ctx, c.Job, s, change)
	spare.used = done || err != nil && !refused(err)
	return now, done, err
}

// granted makes the grant of a decision that left the keys as they are now.
func granted(c backends.Claim, decision backends.Decision, now *state, lease int64) backends.Grant {
	g := *decision.Grant
	g.Claim = c
	if !now.held {
		mine := *now
		mine.held, mine.leased, mine.lease, mine.label = true, now.beaten, lease, backends.LabelOf(g)
		now = &mine
	}
	g.Native = strconv.FormatInt(now.leased, 10)
	g.Private = backends.NewHolding(now, newer)
	return g
}

// spare is a new lease of etcd's that a claim may need. It is asked for once, and given back if it is not used.
type spare struct {
	driver *Driver
	ttl    time.Duration // that is asked for, and then as granted
	used   bool          // a transaction that puts a key under it may have been applied

	id     int64
	err    error
	done   chan struct{} // closed when the answer is there; nil: nobody has asked
	cancel context.CancelFunc
}

// request asks for the lease. Its id is ours to choose, so that a reply which is lost leaves nothing in doubt.
func (s *spare) request(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.id, s.done = 1+rand.Int64N(1<<63-1), make(chan struct{}) //nolint:gosec // it only has to be unused
	panics.Go(func() {
		defer close(s.done)
		seconds := int64((s.ttl + time.Second - 1) / time.Second)
		reply, err := s.driver.client.Grant(ctx, s.id, seconds)
		switch {
		case err != nil:
			s.err = s.driver.classify(err)
		case reply.ID != s.id || reply.TTL < seconds:
			s.err = errReply
		default:
			s.ttl = time.Duration(reply.TTL) * time.Second
		}
	})
}

// get returns the lease and its TTL, which the server may have made longer.
func (s *spare) get(ctx context.Context) (int64, time.Duration, error) {
	if s.done == nil {
		s.request(ctx)
	}
	<-s.done // the request ends with ctx
	if s.err != nil {
		return 0, 0, fmt.Errorf("lease: %w", s.err)
	}
	return s.id, s.ttl, nil
}

// discard gives the lease back if it is not used: hosts that are refused every minute would pile them up.
func (s *spare) discard(ctx context.Context) {
	if s.done == nil {
		return
	}
	defer s.cancel()
	select {
	case <-s.done:
	case <-time.After(tidying):
		s.cancel()
		<-s.done
	}
	if s.err == nil && !s.used {
		s.driver.revoke(ctx, s.id)
	}
}
