package zookeeper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
)

// state is what the nodes of a job hold. It is not changed.
//
// A beat is the transaction that had written the record before the holder wrote it, or 1: no two versions follow the
// same one, and a record is made once for a token, because it goes no earlier than the lease below it.
// A record that somebody else put there, perhaps what it once was, has the negative of its own transaction for a beat.
type state struct {
	record  backends.Record // zero: there is none
	exists  bool            // the record's node, perhaps an empty one
	born    int64           // the transaction that created it
	written int64           // the transaction that wrote it last
	version int32           // how often it was written since it was created

	held    bool           // the lease exists
	label   backends.Label // zero: it says nothing that makes sense, and foreign why
	foreign error
	leased  int64 // the transaction that created it
	owner   int64 // the session that it goes with
}

// read reads both nodes, at least as new as when it is called, and as they were together: the record once more after the
// lease. Else a run that ends meanwhile would be seen without its lease and without its end.
func (s *session) read(ctx context.Context, job string) (*state, error) {
	k := s.d.cfg.keys(job)
	for {
		synced, record, lease, again := wire.NewCall(wire.Sync(k.record)), wire.NewCall(wire.GetData(k.record)),
			wire.NewCall(wire.GetData(k.lease)), wire.NewCall(wire.Exists(k.record, false))
		if err := s.do(ctx, synced, record, lease, again); err != nil {
			return nil, err
		}
		if synced.Err != nil {
			return nil, s.d.classify(synced.Err)
		}
		unread := record.Err != nil && !wire.Is(record.Err, wire.NoNode) // but its Stat is for everybody
		if unread || record.Stat.Mzxid == again.Stat.Mzxid {
			return s.d.state(k, record, lease)
		}
	}
}

// state puts together what was read.
func (d *Driver) state(k keys, record, lease *wire.Call) (*state, error) {
	now := new(state)
	switch err := record.Err; {
	case err == nil:
		now.exists, now.born, now.written, now.version = true, record.Stat.Czxid, record.Stat.Mzxid, record.Stat.Version
		if now.record, err = readRecord(record); err != nil {
			return nil, backends.Misconfigured(damagedHint, "the node %s holds no record of leaderrun: %w", k.record, err)
		}
	case !wire.Is(err, wire.NoNode):
		return nil, d.classify(err)
	}
	switch err := lease.Err; {
	case err == nil:
		now.held, now.leased, now.owner = true, lease.Stat.Czxid, lease.Stat.EphemeralOwner
		now.label, now.foreign = readLabel(k, lease)
	case !wire.Is(err, wire.NoNode):
		return nil, d.classify(err)
	}
	return now, nil
}

// readLabel reads a lease. One that we have not written so is never taken for free: who wrote it may run. It is written
// once, with the node, and never changed: a node of another version has been tampered with.
func readLabel(k keys, lease *wire.Call) (backends.Label, error) {
	l, ok := backends.ParseLabel(lease.Data)
	switch {
	case !ok:
		return backends.Label{}, backends.Misconfigured(damagedHint, "the node %s holds no lease of leaderrun", k.lease)
	case lease.Stat.EphemeralOwner == 0 || lease.Stat.Version != 0:
		return backends.Label{}, backends.Misconfigured("who is sure that nobody runs the job deletes the node", "the node %s was written by hand: it says nothing of who runs the job", k.lease)
	}
	return l, nil
}

// stored is what a record node holds: the record, and which version of the node it was written as.
type stored struct {
	backends.Record
	Version int32 `json:"version"`
}

// readRecord reads a record. An empty node is none: somebody has made it to set its rights, perhaps.
func readRecord(node *wire.Call) (backends.Record, error) {
	if len(node.Data) == 0 {
		return backends.Record{}, nil
	}
	r, err := backends.ParseRecord(node.Data)
	if err != nil {
		return backends.Record{}, err
	}
	var written struct{ Version int32 } // as stored has it
	if err := json.Unmarshal(node.Data, &written); err != nil {
		return backends.Record{}, err
	}
	if written.Version != node.Stat.Version {
		r.Beat = -node.Stat.Mzxid
	}
	return r, nil
}

// view is what the decision is taken on.
func (s *state) view(ttl time.Duration) backends.View {
	if !s.held {
		return backends.BeatView(s.record, nil, ttl)
	}
	return backends.BeatView(s.record, &s.label, ttl)
}

// change is what a step writes.
type change struct {
	record backends.Record
	alive  bool // the holder shows that it is: a beat
	lease  leaseChange
	label  backends.Label // of hold
}

// leaseChange says what becomes of the lease.
type leaseChange int

const (
	leave   leaseChange = iota // whatever it is
	hold                       // it is there, under this session
	release                    // it is deleted
)

// ops are the operations of a change, that of the record first.
func (s *session) ops(k keys, old *state, c change) []wire.Op {
	acl := s.d.acl()
	ops := []wire.Op{wire.SetData(k.record, backends.Marshal(stored{c.record, old.version + 1}), old.version)}
	if !old.exists {
		ops = append([]wire.Op{wire.Create(k.record, nil, acl, false)}, ops...)
	}
	create := wire.Create(k.lease, backends.Marshal(c.label), acl, true)
	switch {
	case c.lease == release:
		ops = append(ops, wire.Delete(k.lease, 0))
	case c.lease == hold && !old.held:
		ops = append(ops, create)
	case c.lease == hold && old.owner == s.id():
		ops = append(ops, wire.Check(k.lease, 0))
	case c.lease == hold: // ours, under an earlier session: the reply to a claim was lost
		ops = append(ops, wire.Delete(k.lease, 0), create)
	}
	return ops
}

// acl returns the rights to new nodes.
func (d *Driver) acl() []wire.ACL {
	if d.cfg.url.User != "" {
		return wire.Creator()
	}
	return wire.World()
}

// swap makes a change if the record is still as it was read, and returns what the nodes are then. If it is not it changes
// nothing, and returns what they are now: done is false. Who holds the lease is told in the same reply whether it is the
// one that was read: in its place may be one that somebody made by hand.
func (s *session) swap(ctx context.Context, job string, old *state, c change) (next *state, done bool, err error) {
	k := s.d.cfg.keys(job)
	c.record.Beat = old.record.Beat
	if c.alive || old.record.Beat < 0 { // no record has a beat below 0: the next one counts as a sign of life
		c.record.Beat = cmp.Or(old.written, 1)
	}
	multi := wire.NewCall(wire.Multi(s.ops(k, old, c)...))
	calls := []*wire.Call{multi}
	if c.lease == hold {
		calls = append(calls, wire.NewCall(wire.GetData(k.lease)))
	}
	switch err := s.do(ctx, calls...); {
	case err != nil:
		return nil, false, err
	case multi.Err != nil:
		next, err = s.refused(ctx, job, old, multi.Err)
		return next, false, err
	}
	if c.lease == hold {
		lease := calls[1]
		if lease.Err != nil && !wire.Is(lease.Err, wire.NoNode) {
			return nil, false, s.d.classify(lease.Err)
		}
		if lease.Err != nil || lease.Stat.EphemeralOwner != s.id() {
			next, err = s.read(ctx, job)
			return next, false, err
		}
	}
	return after(old, c, calls)
}

// after returns what a change has left.
func after(old *state, c change, calls []*wire.Call) (*state, bool, error) {
	stat := calls[0].Stats[0]
	if !old.exists { // the first one made it
		stat = calls[0].Stats[1]
	}
	if old.exists && stat.Czxid != old.born {
		return nil, false, errReborn
	}
	now := *old
	now.exists, now.born, now.written, now.version = true, stat.Czxid, stat.Mzxid, stat.Version
	now.record = c.record
	switch c.lease {
	case hold:
		lease := calls[1].Stat
		now.held, now.leased, now.owner, now.label = true, lease.Czxid, lease.EphemeralOwner, c.label
	case release:
		now.held, now.leased, now.owner, now.label = false, 0, 0, backends.Label{}
	}
	return &now, true, nil
}

// refused reads what the nodes are after a multi that was not done, and makes the parents of a record that has none.
func (s *session) refused(ctx context.Context, job string, old *state, refusal error) (*state, error) {
	if !wire.Is(refusal, wire.NoNode, wire.NodeExists, wire.BadVersion) {
		return nil, s.d.classify(refusal)
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
	all := parents(s.d.cfg.keys(job).record)
	missing := 0
	for missing < len(all) {
		err := s.make(ctx, all[missing])
		if err == nil {
			break
		}
		if !wire.Is(err, wire.NoNode) {
			return s.d.classify(err)
		}
		missing++
	}
	for missing--; missing >= 0; missing-- {
		if err := s.make(ctx, all[missing]); err != nil {
			return s.d.classify(err)
		}
	}
	return nil
}

// make makes a lasting node, if there is none.
func (s *session) make(ctx context.Context, path string) error {
	call := wire.NewCall(wire.Create(path, nil, s.d.acl(), false))
	if err := s.do(ctx, call); err != nil {
		return err
	}
	if wire.Is(call.Err, wire.NodeExists) {
		return nil
	}
	return call.Err
}
