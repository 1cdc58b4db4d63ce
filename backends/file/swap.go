package file

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// Swap implements backends.Tx. What is known from an earlier request was not read in this turn: it is read anew.
func (t *tx) Swap(ctx context.Context, was backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	s := of(was)
	if s != t.seen {
		now, err := t.Read(ctx)
		return now, false, err
	}
	next := *s
	next.record = w.Record
	var err error
	switch {
	case t.q.Op == backends.ToRenew:
		t.renew(s, w.Record)
	case t.locks != nil && w.Lease != nil:
		next.granted, err = t.grant(w)
	case w.Release && t.q.Op == backends.ToOrder:
		err = backends.Misconfigured("end them: they are on this host, and all have the file "+t.lock+" open",
			"the lock of job %q is held, and only the end of the processes that hold it frees it", t.job)
	default:
		err = t.save(w.Record)
	}
	if err != nil {
		return nil, false, err
	}
	if l := next.granted; l != nil && w.Lease != nil {
		l.until = time.Now().Add(w.TTL)
		if t.q.Op == backends.ToClaim {
			if err = ctx.Err(); err == nil { // somebody waits for the answer
				l.unwanted.Store(false)
			}
		}
	}
	return &next, err == nil, err
}

// renew writes a renewal into what the store keeps. The lock is the proof: that it cannot be written (a full disk) does
// not cost the lease.
func (t *tx) renew(s *state, r backends.Record) {
	switch {
	case s.alone:
	case t.turn != nil: // the record was lost
		_ = t.save(r)
	default:
		_ = t.writeBeat(beatOf(r))
	}
}

// grant makes a lease of the locks. The lock file comes first. If the record is not written after it, the two name different runs. Then
// the locks prove nothing (see proof), and others go by the record: it is free, or tells until when its run may live.
func (t *tx) grant(w backends.Write) (*lease, error) {
	if err := writeOwner(t.locks.lease, *w.Lease); err != nil {
		return nil, err
	}
	if err := t.save(w.Record); err != nil {
		return nil, err
	}
	l := &lease{paths: t.paths, label: *w.Lease, locks: t.locks, probe: isHidden(t.locks.lease)}
	s := t.store
	l.unwanted.Store(true) // until its holder hears of it
	l.mu.Lock()            // and keep it, as if it were found
	t.lease = l
	l.timer = time.AfterFunc(w.TTL, panics.Caught(func() { s.lapse(l) }))
	t.mu.Lock()
	former := t.held[t.job]
	t.held[t.job], t.locks = l, nil
	if w := t.waiters[t.job]; w != nil {
		w.wanted = false
	}
	t.mu.Unlock()
	if former != nil { // lost long ago, and never finished
		former.mu.Lock()
		former.end()
		former.mu.Unlock()
	}
	return l, nil
}

// save writes the record, in the turn.
func (t *tx) save(r backends.Record) error {
	err := t.paths.save(t.record, r)
	if err == nil {
		t.record = r
	}
	return err
}

// release ends a lease and forgets it. Call with its mutex held.
func (s *store) release(l *lease) {
	l.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[l.job] == l {
		delete(s.held, l.job)
	}
	if w := s.waiters[l.job]; w != nil { // a standby in this process
		w.notify()
		w.kick()
	}
}

// lapse lets go of a lease that nobody wants and nobody has renewed for its TTL, as a server does: its end could not be written (a full
// disk), or the answer to its claim came too late. A process that has many runs would keep the job from everybody. While a run may be
// alive the lease stays, however old it is: our locks may be the only proof of that.
func (s *store) lapse(l *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	const lookAgain = time.Second
	left := time.Until(l.until)
	if left <= 0 && !l.unwanted.Load() {
		left = lookAgain
	}
	if left > 0 {
		l.timer.Reset(left)
		return
	}
	s.release(l)
}
