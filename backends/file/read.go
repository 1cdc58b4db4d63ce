package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/flock"
)

// state is what there is of a job, as a request saw it or left it. It is not changed.
type state struct {
	record  backends.Record
	lease   *backends.Lease // nil: the locks are the asker's to take, or already taken by this request
	proof   backends.Proof
	floor   int64  // the token of the last grant, by the lock file
	granted *lease // of the asker, in this process
	alone   bool   // the record cannot be read: nothing is written
}

// of returns what a snapshot of this store is.
func of(now backends.Snapshot) *state {
	s, _ := now.(*state)
	return s
}

// View implements backends.Snapshot.
func (s *state) View(backends.Request) backends.View {
	return backends.View{Record: s.record, Lease: s.lease, Now: time.Now(), Proof: s.proof, Floor: s.floor}
}

// Newer implements backends.Snapshot.
func (s *state) Newer(than backends.Snapshot) bool { return s.record.Beat > of(than).record.Beat }

// Complete implements backends.Snapshot.
func (s *state) Complete(g *backends.Grant) {
	l := s.granted.locks
	g.Hold, g.Inherit = []*os.File{l.lease}, []*os.File{l.tree}
}

// Read implements backends.Tx.
func (t *tx) Read(ctx context.Context) (backends.Snapshot, error) {
	t.drop()
	var err error
	switch t.q.Op {
	case backends.ToClaim:
		t.seen, err = t.toClaim(ctx)
	case backends.ToRenew:
		t.seen, err = t.toRenew(ctx)
	case backends.ToFinish, backends.ToAbandon:
		t.seen, err = t.toEnd(ctx)
	case backends.ToOrder:
		t.seen, err = t.toOrder(ctx)
	default:
		t.seen, err = t.toInspect(ctx)
	}
	if err != nil {
		return nil, err
	}
	return t.seen, nil
}

// take takes the turn, in which nobody else writes, and reads the record.
func (t *tx) take(ctx context.Context, flags int) (err error) {
	if t.turn, err = t.waitLock(ctx, t.beat, flags); err != nil {
		return permanent(err)
	}
	t.record, err = t.load()
	return err
}

// toClaim waits a moment for locks that are taken although nobody runs: a standby has them and has not claimed yet, and
// may drop them again.
func (t *tx) toClaim(ctx context.Context) (*state, error) {
	const looks, pause = 20, 2 * time.Millisecond
	for n := 1; ; n++ {
		s, err := t.tryToClaim(ctx)
		passing := err == nil && s.granted == nil && s.lease != nil && t.record.Free()
		if !passing || n == looks {
			return s, err
		}
		t.drop()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *tx) tryToClaim(ctx context.Context) (*state, error) {
	if err := t.take(ctx, os.O_CREATE); err != nil {
		return nil, err
	}
	if own, err := t.own(); own != nil || err != nil {
		return own, err
	}
	if t.lease != nil { // it is lost, and in the way of those that are to come
		t.lease.mu.Unlock()
		t.lease = nil
	}
	t.claiming = true
	if t.locks = t.handed(t.job); t.locks == nil {
		var err error
		if t.locks, err = t.both(t.tryLock); err != nil {
			return nil, permanent(err)
		}
	}
	if t.locks == nil {
		s := t.heldBy(t.grantee())
		if s.lease.Holder == t.q.Holder.ID {
			s.lease.Holder = "" // by name only: we do not have the lock
		}
		return s, nil
	}
	last, err := readOwner(t.locks.lease)
	return &state{record: t.record, proof: t.proof(last), floor: last.Token}, err
}

// toRenew asks for no turn: a candidate that is stopped in the middle of a request must not cost a holder its lease. Only a
// record that was lost is written anew in one. A record that cannot be read does not cost the lease either: the lock is
// the proof.
func (t *tx) toRenew(ctx context.Context) (*state, error) {
	record, unread := t.load()
	if l := t.granted(); unread == nil && l != nil && record.Token < l.label.Token {
		unread = t.take(ctx, os.O_CREATE)
		record = t.record
	}
	if t.record = record; unread != nil {
		t.record = backends.Record{}
	}
	s, err := t.own()
	if err != nil || s == nil {
		return &state{record: t.record}, err
	}
	o, err := readOwner(t.lease.locks.lease)
	if o != t.lease.label || err != nil {
		return &state{record: t.record}, err
	}
	s.alone = unread != nil
	return s, nil
}

// toEnd looks for the asker's own lease, or whose else there is.
func (t *tx) toEnd(ctx context.Context) (*state, error) {
	if err := t.take(ctx, os.O_CREATE); err != nil {
		return nil, err
	}
	own, err := t.own()
	if own != nil || err != nil {
		return own, err
	}
	if t.lease != nil { // what is left of it is in nobody's way: its run is over
		t.release(t.lease)
	}
	return t.probed()
}

// toOrder makes no file of a job that nobody knows.
func (t *tx) toOrder(ctx context.Context) (*state, error) {
	if !t.has(t.paths.record) && !t.has(t.lock) {
		return new(state), nil
	}
	if err := t.take(ctx, os.O_CREATE); err != nil {
		return nil, err
	}
	return t.probed()
}

// toInspect makes no file at all. Without the one of the turn it reads the record as it is.
func (t *tx) toInspect(ctx context.Context) (*state, error) {
	if !t.has(t.paths.record) {
		return new(state), nil
	}
	err := t.take(ctx, 0)
	if errors.Is(err, fs.ErrNotExist) {
		t.record, err = t.load()
	}
	if err != nil {
		return nil, err
	}
	t.record.Job = t.job // also where a crash has emptied its file
	return t.probed()
}

// granted returns the lease that this process has granted the asker, or nil.
func (t *tx) granted() *lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.held[t.job]; l != nil && l.label.Holder == t.q.Holder.ID {
		return l
	}
	return nil
}

// own returns the state of a job whose lease the asker has; nil: it has none. If the asker's lease is lost, t.lease has what is left of it.
func (t *tx) own() (*state, error) {
	l := t.granted()
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	t.lease = l
	alive, err := l.alive()
	if err != nil || !alive || !l.isIn(t.record) {
		return nil, err
	}
	s := t.heldBy(l.label)
	s.lease.Holder, s.granted = l.label.Holder, l
	return s, nil
}

// probed finds out who has the locks. It is in nobody's way: claims try the locks only in a turn, which is ours now. Locks that this
// process itself has waited for and keeps for its next claim (see waiter) are no run's. A standby that took its own locks for those of
// the dead holder would not claim, and if all standbys did so, nobody would ever run the job.
func (t *tx) probed() (*state, error) {
	if t.keeps(t.paths) {
		return t.free(), nil
	}
	for _, path := range []string{t.lock, t.tree} {
		f, err := t.tryLock(path, syscall.LOCK_SH, os.O_RDONLY)
		switch {
		case f != nil:
			flock.Unlock(f)
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, permanent(err)
		default:
			s := t.heldBy(t.grantee())
			if s.lease.Holder == "" && t.record.Free() {
				s.lease = nil
			}
			return s, nil
		}
	}
	return t.free(), nil
}

// free is a job whose locks nobody has.
func (t *tx) free() *state { return &state{record: t.record, proof: t.proof(t.readOwnerAt(t.lock))} }

// heldBy is the state of a job whose locks somebody has; o is whom they were granted to last. If the record says that this run has
// ended, a standby has them that has not claimed yet: then the lease has no holder.
func (t *tx) heldBy(o backends.Label) *state {
	const lookAgain = time.Second // where the record cannot say when
	left := time.Until(time.UnixMilli(t.record.Until))
	if left <= 0 || o.Token != t.record.Token {
		left = lookAgain
	}
	if o.Token == t.record.Token && t.record.Free() {
		o.Holder = ""
	}
	l := &backends.Lease{Holder: o.Holder, Token: o.Token, Left: left}
	return &state{record: t.record, lease: l, proof: backends.ByRelease}
}

// grantee says whom the locks were granted to that somebody has. The lock file tells, or the record if that file was removed while the
// tree lived on.
func (t *tx) grantee() backends.Label {
	if o := t.readOwnerAt(t.lock); o != (backends.Label{}) {
		return o
	}
	return labelOf(t.record)
}

// proof says what free locks prove; last is whom they were granted to last. If the record names another run, that run was not granted
// these locks, and they prove nothing of its death.
func (t *tx) proof(last backends.Label) backends.Proof {
	if last == labelOf(t.record) {
		return backends.ByRelease
	}
	return backends.ByUntil
}

func labelOf(r backends.Record) backends.Label {
	return backends.Label{Holder: r.Holder.ID, Token: r.Token}
}
