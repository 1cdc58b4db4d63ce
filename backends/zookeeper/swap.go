package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
)

// Swap implements backends.Tx, by one multi.
func (t *tx) Swap(ctx context.Context, was backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	now, done, err := t.session.swap(ctx, t.q.Job, of(was), w)
	t.last = now
	switch {
	case t.movesOn(ctx, err):
		return nil, false, nil
	case errors.Is(err, errReborn) && (t.q.Op == backends.ToRenew || t.q.Op == backends.ToFinish): // and the lease, which was below it, was deleted before
		return nil, false, backends.ErrLost
	case err != nil:
		return nil, false, err
	case done && t.q.Op == backends.ToClaim && w.Lease != nil:
		t.spare = nil // it is the grant's
	}
	return now, done, nil
}

// swap writes if the record is still as it was read, and returns what the nodes are then. If it is not it changes
// nothing, and returns what they are now: done is false. Who holds the lease is told in the same reply whether it is the
// one that was read: in its place may be one that somebody made by hand.
func (s *session) swap(ctx context.Context, job string, old *state, w backends.Write) (now *state, done bool, err error) {
	k := s.store.cfg.keys(job)
	beat := old.record.Beat
	if w.Beat || beat < 0 { // no record has a beat below 0: the next one counts as a sign of life
		beat = cmp.Or(old.written, 1)
	}
	w.Record.Beat = beat
	multi, lease := wire.NewCall(wire.Multi(s.ops(k, old, w)...)), wire.NewCall(wire.GetData(k.lease))
	calls := []*wire.Call{multi}
	if w.Lease != nil {
		calls = append(calls, lease)
	}
	if err := s.do(ctx, calls...); err != nil {
		return nil, false, err
	}
	if multi.Err != nil {
		now, err = s.refused(ctx, job, old, multi.Err)
		return now, false, err
	}
	if w.Lease != nil {
		if lease.Err != nil && !wire.Is(lease.Err, wire.NoNode) {
			return nil, false, s.store.classify(lease.Err)
		}
		if lease.Err != nil || lease.Stat.EphemeralOwner != s.id() {
			now, err = s.read(ctx, job)
			return now, false, err
		}
	}
	stat := multi.Stats[0]
	if !old.exists { // the first one made it
		stat = multi.Stats[1]
	}
	if old.exists && stat.Czxid != old.born {
		return nil, false, errReborn
	}
	now = &state{session: s, record: w.Record, exists: true, born: stat.Czxid, written: stat.Mzxid, version: stat.Version}
	switch {
	case w.Lease != nil:
		now.held, now.leased, now.owner, now.label = true, lease.Stat.Czxid, lease.Stat.EphemeralOwner, *w.Lease
	case !w.Release:
		now.held, now.leased, now.owner, now.label, now.foreign = old.held, old.leased, old.owner, old.label, old.foreign
	}
	return now, true, nil
}

// ops are the operations of a write, that of the record first.
func (s *session) ops(k keys, old *state, w backends.Write) []wire.Op {
	acl := s.store.acl()
	ops := []wire.Op{wire.SetData(k.record, backends.Marshal(stored{w.Record, old.version + 1}), old.version)}
	if !old.exists {
		ops = append([]wire.Op{wire.Create(k.record, nil, acl, false)}, ops...)
	}
	held := w.Lease != nil && old.held
	switch {
	case held && old.owner == s.id():
		ops = append(ops, wire.Check(k.lease, 0))
	case held, w.Release: // held: ours, under an earlier session: the reply to a claim was lost
		ops = append(ops, wire.Delete(k.lease, 0))
	}
	if w.Lease != nil && !(held && old.owner == s.id()) {
		ops = append(ops, wire.Create(k.lease, backends.Marshal(*w.Lease), acl, true))
	}
	return ops
}

// acl returns the rights to new nodes.
func (s *store) acl() []wire.ACL {
	if s.cfg.url.Login.User() != "" {
		return wire.Creator()
	}
	return wire.World()
}

// refused reads what the nodes are after a multi that was not done, and makes the parents of a record that has none.
func (s *session) refused(ctx context.Context, job string, old *state, refusal error) (*state, error) {
	if !wire.Is(refusal, wire.NoNode, wire.NodeExists, wire.BadVersion) {
		return nil, s.store.classify(refusal)
	}
	orphan := false
	if e, ok := errors.AsType[*wire.Error](refusal); ok && e.Code == wire.NoNode && e.Index == 0 && !old.exists {
		orphan = true
		if err := s.makeParents(ctx, job); err != nil {
			return nil, err
		}
	}
	now, err := s.read(ctx, job)
	if err != nil {
		return nil, err
	}
	if !orphan && now.exists == old.exists && now.born == old.born && now.version == old.version && now.leased == old.leased {
		return nil, fmt.Errorf("%w: %w", errReply, refusal)
	}
	return now, nil
}

// makeParents makes what is missing above a job's record: from below, because who may make a node in the middle may
// not do so at the top.
func (s *session) makeParents(ctx context.Context, job string) error {
	all := parents(s.store.cfg.keys(job).record)
	missing := 0
	for missing < len(all) {
		err := s.make(ctx, all[missing])
		if err == nil {
			break
		}
		if !wire.Is(err, wire.NoNode) {
			return s.store.classify(err)
		}
		missing++
	}
	for missing--; missing >= 0; missing-- {
		if err := s.make(ctx, all[missing]); err != nil {
			return s.store.classify(err)
		}
	}
	return nil
}

// make makes a lasting node, if there is none.
func (s *session) make(ctx context.Context, path string) error {
	call := wire.NewCall(wire.Create(path, nil, s.store.acl(), false))
	if err := s.do(ctx, call); err != nil {
		return err
	}
	if wire.Is(call.Err, wire.NodeExists) {
		return nil
	}
	return call.Err
}
