package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Acquire implements backends.Driver.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	const looks, pause = 20, 2 * time.Millisecond
	return inTime(ctx, d.life, func(ctx context.Context) (backends.Grant, error) {
		for n := 1; ; n++ {
			g, passing, err := d.claim(ctx, c)
			if !passing || n == looks {
				return g, err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return g, ctx.Err()
			}
		}
	})
}

// claim makes one attempt. It says passing where the lock is taken although nobody runs: a standby has it and
// has not claimed yet, and may drop it again.
func (d *Driver) claim(ctx context.Context, c backends.Claim) (g backends.Grant, passing bool, err error) {
	s, err := d.begin(ctx, c.Job)
	if err != nil {
		return g, false, err
	}
	defer s.end()
	d.learn(s.turn)
	l, err := d.mine(c.Job, c.Holder.ID)
	if err != nil {
		return g, false, err
	}
	if l != nil {
		defer l.mu.Unlock()
		if s.record.Token <= l.token {
			g, err := d.again(s, l, c)
			return g, false, err
		}
	}
	defer d.claimed(c.Job)
	locks := d.handed(c.Job)
	if locks == nil {
		if locks, err = s.both(s.tryLock); err != nil {
			return g, false, permanent(err)
		}
	}
	if locks == nil {
		err := d.refuseHeld(s, c)
		return g, s.record.Free(), err
	}
	g, err = d.decideFree(s, locks, c)
	if err != nil {
		locks.unlock()
	}
	return g, false, err
}

// again answers the holder of the lease.
func (d *Driver) again(s *step, l *lease, c backends.Claim) (backends.Grant, error) {
	current := s.leaseOf(owner{l.holder, l.token})
	current.Holder = l.holder
	decision := backends.Decide(s.view(current, backends.ByRelease), c)
	if err := s.save(s.record, decision.Record); err != nil {
		return backends.Grant{}, err
	}
	if decision.Refusal != nil {
		return backends.Grant{}, decision.Refusal
	}
	return l.granted(*decision.Grant), nil
}

// granted adds to a grant what only this store knows.
func (l *lease) granted(g backends.Grant) backends.Grant {
	g.Hold, g.Inherit, g.Private = []*os.File{l.locks.lease}, []*os.File{l.locks.tree}, l
	return g
}

// refuseHeld answers a candidate while somebody has the lock.
func (d *Driver) refuseHeld(s *step, c backends.Claim) error {
	current := s.leaseOf(s.grantee())
	if current.Holder == c.Holder.ID {
		current.Holder = "" // by name only: we do not have the lock
	}
	decision := backends.Decide(s.view(current, backends.ByRelease), c)
	if decision.Changed {
		if err := s.save(s.record, decision.Record); err != nil {
			return err
		}
	}
	d.waitAfter(c.Job, decision.Refusal)
	return decision.Refusal
}

// decideFree answers a candidate that has the lock. With an error, it is the caller's to drop.
func (d *Driver) decideFree(s *step, locks *locks, c backends.Claim) (backends.Grant, error) {
	last, err := readOwner(locks.lease)
	if err != nil {
		return backends.Grant{}, err
	}
	floored := c
	floored.Floor = max(c.Floor, last.Token) // the record may have been lost
	decision := backends.Decide(s.view(nil, s.proof(last)), floored)
	if decision.Grant == nil {
		if decision.Changed {
			if err := s.save(s.record, decision.Record); err != nil {
				return backends.Grant{}, err
			}
		}
		d.waitAfter(c.Job, decision.Refusal)
		return backends.Grant{}, decision.Refusal
	}
	g := *decision.Grant
	g.Claim = c
	// First whose the lock is: if the record is not written any more, its last run has released it, or its
	// last renewal is the evidence.
	if err := (owner{c.Holder.ID, g.Token}).write(locks.lease); err != nil {
		return backends.Grant{}, err
	}
	if err := s.save(s.record, decision.Record); err != nil {
		return backends.Grant{}, err
	}
	return d.hold(s, locks, g), nil
}

// learn finds out, once, whether this system shows which locks an open file description has, by one that is locked. It
// comes early: a standby knows it when the job gets free.
func (d *Driver) learn(locked *os.File) {
	d.mu.Lock()
	known := d.knows
	d.mu.Unlock()
	if known {
		return
	}
	shown, err := showsLock(locked)
	cannot := err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.knows, d.probes = shown || cannot, !shown && cannot
}

// hold keeps the locks for a grant.
func (d *Driver) hold(s *step, locks *locks, g backends.Grant) backends.Grant {
	d.mu.Lock()
	l := &lease{paths: s.paths, holder: g.Claim.Holder.ID, token: g.Token, locks: locks, probe: d.probes}
	former := d.held[s.job]
	d.held[s.job] = l
	if w := d.waiters[s.job]; w != nil {
		w.wanted = false
	}
	d.mu.Unlock()
	if former != nil { // lost long ago, and never finished
		former.mu.Lock()
		former.end()
		former.mu.Unlock()
	}
	return l.granted(g)
}
