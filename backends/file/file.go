// Package file keeps leases in the files of a directory on this host. It needs no server, and excludes only the
// runs of this host.
//
// The lease of a job is flock(2) on its lock file, of which wrapper and guardian share one open file description, and on
// a second file, of which they share one with the run's whole tree. Who is granted has both. So two free locks mean that
// every process of the last run is gone, or that wrapper or guardian has confirmed its tree dead and unlocked them: the
// locks themselves are the evidence, and a crash hands over at once. The lock file also says whom it was granted to. Where that is not what the record says, the lock
// file is not the one that the last grant was made on (somebody removed it), and the record's last renewal is
// the evidence, as on a server. The record is another file, replaced as a whole under a second lock that is
// held for a moment.
package file

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
)

var (
	_ backends.Driver      = (*Driver)(nil)
	_ backends.Watcher     = (*Driver)(nil)
	_ backends.Inspector   = (*Driver)(nil)
	_ backends.Operator    = (*Driver)(nil)
	_ backends.LocalHolder = (*Driver)(nil)
)

// Driver keeps leases in one directory.
type Driver struct {
	dir    string
	trusts trust

	life    context.Context // ends with Close, and all that waits with it
	endLife context.CancelFunc

	mu      sync.Mutex
	held    map[string]*lease  // by job, until they are finished
	waiters map[string]*waiter // by job
	knows   bool               // whether leases are probed
	probes  bool               // this system cannot show which locks a description has
}

// unclosed keeps the locks of drivers that were closed with leases: closing does not release them, and what
// nobody points to is closed by the garbage collector.
var unclosed struct {
	sync.Mutex
	leases []*lease
}

// inTime runs f and returns early if the context or the driver's life ends: a disk may take for ever, and a call on it
// cannot be interrupted. What f does is then done later or never.
func inTime[T any](ctx, life context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := backends.During(ctx, life)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan result, 1)
	panics.Go(func() {
		value, err := f(ctx)
		done <- result{value, err}
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// step is what one call does to a job, alone.
type step struct {
	paths
	record backends.Record
	turn   *os.File // the beat file, locked for the moment
	now    time.Time
}

func (d *Driver) begin(ctx context.Context, job string) (*step, error) {
	p := d.paths(job)
	turn, err := p.waitLock(ctx, p.beat, os.O_CREATE)
	if err != nil {
		return nil, permanent(err)
	}
	r, err := p.load()
	if err != nil {
		unlock(turn)
		return nil, err
	}
	return &step{paths: p, record: r, turn: turn, now: time.Now()}, nil
}

func (s *step) end() { unlock(s.turn) }

// view is what the decision sees. Without a lease, the lock is ours or nobody's.
func (s *step) view(l *backends.Lease, proof backends.Proof) backends.View {
	return backends.View{Record: s.record, Lease: l, Now: s.now, Proof: proof}
}

// leaseOf shows the lease of a lock that somebody has. One whose run has ended is in the hands of a standby
// that has not claimed yet, and nobody's.
func (s *step) leaseOf(o owner) *backends.Lease {
	const lookAgain = time.Second // where the record cannot say when
	left := time.UnixMilli(s.record.Until).Sub(s.now)
	if left <= 0 || o.Token != s.record.Token {
		left = lookAgain
	}
	if o.Token == s.record.Token && s.record.Free() {
		o.Holder = ""
	}
	return &backends.Lease{Holder: o.Holder, Token: o.Token, Left: left}
}

// grantee is whom a lock was granted to that somebody has: the lock file says it, or the record where that file was
// removed while the tree lived on.
func (s *step) grantee() owner {
	if o := s.readOwnerAt(s.lock); o != (owner{}) {
		return o
	}
	return owner{s.record.Holder.ID, s.record.Token}
}

// ofRun is a lease that a probe found, or nil where it is nobody's.
func (s *step) ofRun(l *backends.Lease) *backends.Lease {
	if l != nil && l.Holder == "" && s.record.Free() {
		return nil
	}
	return l
}

// proof is what a free lock proves that was granted to last: where the record names another one, it is not the lock
// that the record's run was granted.
func (s *step) proof(last owner) backends.Proof {
	if last == (owner{s.record.Holder.ID, s.record.Token}) {
		return backends.ByRelease
	}
	return backends.ByUntil
}

// mine returns the job's lease of a holder if it is still alive, with its mutex held.
func (d *Driver) mine(job, holder string) (*lease, error) {
	d.mu.Lock()
	l := d.held[job]
	d.mu.Unlock()
	if l == nil || l.holder != holder {
		return nil, nil
	}
	l.mu.Lock()
	alive, err := l.alive()
	if !alive {
		l.mu.Unlock()
		return nil, err
	}
	return l, nil
}

// release ends a lease and forgets it. Call with its mutex held.
func (d *Driver) release(job string, l *lease) {
	l.end()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held[job] == l {
		delete(d.held, job)
	}
	if w := d.waiters[job]; w != nil { // a standby in this process
		w.notify()
		w.kick()
	}
}

// dropDead ends what a holder still has of a lease that is not its own any more.
func (d *Driver) dropDead(job, holder string) {
	d.mu.Lock()
	l := d.held[job]
	d.mu.Unlock()
	if l == nil || l.holder != holder {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.release(job, l)
}

// Renew implements backends.Driver. It asks for no lock: a candidate that is stopped in the middle of a step
// must not cost a holder its lease.
func (d *Driver) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	return inTime(ctx, d.life, func(ctx context.Context) (backends.Signal, error) {
		l, ok := g.Private.(*lease)
		if !ok || l.holder != g.Claim.Holder.ID || l.token != g.Token {
			return backends.Signal{}, backends.ErrLost
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if alive, err := l.alive(); err != nil {
			return backends.Signal{}, err
		} else if !alive {
			return backends.Signal{}, backends.ErrLost
		}
		if o, err := readOwner(l.locks.lease); err != nil {
			return backends.Signal{}, err
		} else if o != (owner{l.holder, l.token}) {
			return backends.Signal{}, backends.ErrLost
		}
		return d.extend(ctx, g)
	})
}

// extend writes a renewal into what the store keeps. The lock is the proof: that it cannot be written (a full
// disk, a damaged record) does not cost the lease. That it is not ours does.
func (d *Driver) extend(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	p := d.paths(g.Claim.Job)
	r, err := p.load()
	if err != nil {
		return backends.Signal{}, nil
	}
	if r.Token > g.Token || r.Token == g.Token && (r.Holder.ID != g.Claim.Holder.ID || r.Free()) {
		return backends.Signal{}, backends.ErrLost
	}
	view := backends.View{
		Record: r, Now: time.Now(), Proof: backends.ByRelease,
		Lease: &backends.Lease{Holder: g.Claim.Holder.ID, Token: g.Token},
	}
	if r.Token == g.Token {
		renewal := backends.DecideRenew(view, g)
		_ = p.writeBeat(beatOf(renewal.Record))
		return renewal.Signal, nil
	}
	s, err := d.begin(ctx, g.Claim.Job) // the record was lost: it is written anew, which takes a turn
	if err != nil {
		return backends.Signal{}, nil
	}
	defer s.end()
	view.Record, view.Now = s.record, s.now
	renewal := backends.DecideRenew(view, g)
	_ = s.save(s.record, renewal.Record)
	return renewal.Signal, nil
}

// Finish implements backends.Driver.
func (d *Driver) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	return d.finish(ctx, g.Claim.Job, g.Claim.Holder.ID, func(v backends.View) backends.Ending {
		return backends.DecideFinish(v, g, o)
	})
}

// Abandon implements backends.Driver.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	return d.finish(ctx, c.Job, c.Holder.ID, func(v backends.View) backends.Ending {
		return backends.DecideAbandon(v, c)
	})
}

func (d *Driver) finish(ctx context.Context, job, holder string, decide func(backends.View) backends.Ending) error {
	_, err := inTime(ctx, d.life, func(ctx context.Context) (struct{}, error) {
		s, err := d.begin(ctx, job)
		if err != nil {
			return struct{}{}, err
		}
		defer s.end()
		return struct{}{}, d.finishIn(s, holder, decide)
	})
	return err
}

func (d *Driver) finishIn(s *step, holder string, decide func(backends.View) backends.Ending) error {
	l, err := d.mine(s.job, holder)
	if err != nil {
		return err
	}
	if l == nil { // what is left of it is in nobody's way: its run is over
		d.dropDead(s.job, holder)
	}
	var current *backends.Lease
	if l != nil {
		defer l.mu.Unlock()
		current = s.leaseOf(owner{l.holder, l.token})
		current.Holder = l.holder
	} else if current, err = s.probe(); err != nil {
		return err
	}
	e := decide(s.view(current, backends.ByRelease))
	if e.Changed {
		if err := s.save(s.record, e.Record); err != nil {
			return err
		}
	}
	switch {
	case e.Lost:
		return backends.ErrLost
	case l != nil && (e.Release || e.Record.Free()):
		d.release(s.job, l)
	}
	return nil
}

// probe looks who has the lock, without disturbing: others ask for it only in a step of their own.
func (s *step) probe() (*backends.Lease, error) {
	for _, path := range []string{s.lock, s.tree} {
		f, err := s.tryLock(path, syscall.LOCK_SH, os.O_RDONLY)
		switch {
		case f != nil:
			unlock(f)
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, permanent(err)
		default:
			return s.leaseOf(s.grantee()), nil
		}
	}
	return nil, nil
}

// Limits implements backends.Driver.
func (d *Driver) Limits() backends.Limits { return backends.Limits{} }

// Close implements backends.Driver. It ends what waits for a lock or a disk.
func (d *Driver) Close() error {
	d.endLife()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.waiters {
		w.close()
	}
	unclosed.Lock()
	defer unclosed.Unlock()
	for job, l := range d.held {
		unclosed.leases = append(unclosed.leases, l)
		delete(d.held, job)
	}
	return nil
}
