// Package file keeps leases in the files of a directory on this host. It needs no server, and excludes only the
// runs of this host.
//
// A lease is two locks (flock(2)). The wrapper and the guardian share an open description of the lock file. They and the whole tree
// of the run share one of a second file. A grant means that both are locked. So if both locks are free, either every process of the
// last run is gone, or the wrapper or the guardian has confirmed that the tree is dead and has unlocked them. The locks themselves prove
// the death, and after a crash the next run can start at once.
//
// The lock file also says whom it was granted to. If that is not what the record says, somebody has removed the lock file since the
// last grant. Then the instant of the record's last renewal counts, as it does on a server.
//
// The record is another file, which is replaced as a whole. A request locks a further file, its turn, from its first read to its end. So
// nothing changes between them, and a write never meets a conflict.
package file

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// store is one directory, and what this process has there.
type store struct {
	dir    string
	trusts trust

	mu      sync.Mutex
	held    map[string]*lease  // by job, until they are finished
	waiters map[string]*waiter // by job
}

// unclosed keeps the locks of stores that were closed with leases: closing does not release them, and what
// nobody points to is closed by the garbage collector.
var unclosed struct {
	sync.Mutex
	leases []*lease
}

// Traits implements backends.Store. There is nothing secret in the URL, and the directory is what keeps programs apart.
func (s *store) Traits() backends.Traits {
	return backends.Traits{URL: s.url(), Limits: backends.Limits{LocalHolders: s.holders}}
}

// Begin implements backends.Store.
func (s *store) Begin(_ context.Context, q backends.Request) backends.Tx {
	return &timely{tx: s.begin(q)}
}

func (s *store) begin(q backends.Request) *tx { return &tx{store: s, paths: s.paths(q.Job), q: q} }

// Close implements backends.Store.
func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	unclosed.Lock()
	defer unclosed.Unlock()
	for job, l := range s.held {
		unclosed.leases = append(unclosed.leases, l)
		delete(s.held, job)
	}
	return nil
}

// tx is one request: Read in read.go, Swap in swap.go. What it has locked is its own until End.
type tx struct {
	*store
	paths
	q backends.Request

	turn     *os.File        // the beat file, locked; nil: it is not, or not yet
	record   backends.Record // as it is in its file
	lease    *lease          // what this process has granted the asker, with its mutex held; nil: nothing
	locks    *locks          // of a job that is free, until they are a lease's
	claiming bool            // the job's waiter knows that somebody claims
	seen     *state          // what Read has returned
}

// Extend implements backends.Tx. A lock has no end of its own.
func (t *tx) Extend(context.Context, backends.Snapshot) (time.Duration, error) { return t.q.TTL, nil }

// End implements backends.Tx.
func (t *tx) End(_ context.Context, err error) {
	if r, ok := errors.AsType[*backends.Refusal](err); ok && t.claiming {
		t.waitAfter(t.job, r)
	}
	if l := t.granted(); l != nil && err != nil && t.ends() {
		l.unwanted.Store(true) // its end cannot be written
	}
	t.drop()
}

// ends says whether the run is over for which something is asked.
func (t *tx) ends() bool { return t.q.Op == backends.ToFinish || t.q.Op == backends.ToAbandon }

// drop gives back what the request has locked, and with it the lease of a run that is over, also by what the record says.
func (t *tx) drop() {
	if l := t.lease; l != nil {
		if t.ends() && !l.isIn(t.record) {
			t.release(l)
		}
		l.mu.Unlock()
	}
	if t.locks != nil {
		t.locks.unlock()
	}
	if t.claiming {
		t.claimed(t.job)
	}
	if t.turn != nil {
		flock.Unlock(t.turn)
	}
	t.turn, t.lease, t.locks, t.claiming, t.seen = nil, nil, nil, false, nil
}

// timely is a request to a disk that may take for ever. A call on it cannot be interrupted: a step whose context ends
// is given up, and done later or never. End comes after it.
type timely struct {
	tx    *tx
	steps sync.WaitGroup // that are not done
}

// Read implements backends.Tx.
func (t *timely) Read(ctx context.Context) (backends.Snapshot, error) {
	return inTime(ctx, &t.steps, t.tx.Read)
}

// Extend implements backends.Tx.
func (t *timely) Extend(ctx context.Context, s backends.Snapshot) (time.Duration, error) {
	return t.tx.Extend(ctx, s)
}

// Swap implements backends.Tx.
func (t *timely) Swap(ctx context.Context, s backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	type swapped struct {
		now  backends.Snapshot
		done bool
	}
	is, err := inTime(ctx, &t.steps, func(ctx context.Context) (is swapped, err error) {
		is.now, is.done, err = t.tx.Swap(ctx, s, w)
		return is, err
	})
	return is.now, is.done, err
}

// End implements backends.Tx.
func (t *timely) End(ctx context.Context, err error) {
	over := make(chan struct{})
	panics.Go(func() {
		defer close(over)
		t.steps.Wait()
		t.tx.End(ctx, err)
	})
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// inTime runs f, one of some steps, and returns early if the context ends.
func inTime[T any](ctx context.Context, steps *sync.WaitGroup, f func(context.Context) (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	steps.Add(1)
	return panics.Await(ctx, func() (T, error) {
		defer steps.Done()
		return f(ctx)
	})
}
