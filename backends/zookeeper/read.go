package zookeeper

import (
	"context"
	"encoding/json"
	"strconv"

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

	session *session // that asked
}

// of returns what a snapshot of this store is.
func of(now backends.Snapshot) *state {
	s, _ := now.(*state)
	return s
}

// Read implements backends.Tx.
func (t *tx) Read(ctx context.Context) (backends.Snapshot, error) {
	if t.q.Op == backends.ToFinish {
		if err := t.alone(ctx); err != nil {
			return nil, err
		}
	}
	now, err := t.session.read(ctx, t.q.Job)
	if t.movesOn(ctx, err) {
		now, err = t.session.read(ctx, t.q.Job)
	}
	if err != nil {
		return nil, err
	}
	t.last = now
	return now, nil
}

// read reads both nodes, at least as new as when it is called, and as they were together: the record once more after the
// lease. Else a run that ends meanwhile would be seen without its lease and without its end.
func (s *session) read(ctx context.Context, job string) (*state, error) {
	k := s.store.cfg.keys(job)
	for conflicts := 0; ; conflicts++ {
		if conflicts > 1 {
			if err := backends.Pause(ctx, conflicts); err != nil {
				return nil, err
			}
		}
		synced, record, lease, again := wire.NewCall(wire.Sync(k.record)), wire.NewCall(wire.GetData(k.record)),
			wire.NewCall(wire.GetData(k.lease)), wire.NewCall(wire.Exists(k.record, false))
		if err := s.do(ctx, synced, record, lease, again); err != nil {
			return nil, err
		}
		if synced.Err != nil {
			return nil, s.store.classify(synced.Err)
		}
		unread := record.Err != nil && !wire.Is(record.Err, wire.NoNode) // but its Stat is for everybody
		if unread || record.Stat.Mzxid == again.Stat.Mzxid {
			now, err := s.store.state(k, record, lease)
			if err == nil {
				now.session = s
			}
			return now, err
		}
	}
}

// state puts together what was read.
func (s *store) state(k keys, record, lease *wire.Call) (*state, error) {
	now := new(state)
	switch err := record.Err; {
	case err == nil:
		now.exists, now.born, now.written, now.version = true, record.Stat.Czxid, record.Stat.Mzxid, record.Stat.Version
		if now.record, err = readRecord(record); err != nil {
			return nil, backends.Misconfigured(damagedHint, "the node %s holds no record of leaderrun: %w", k.record, err)
		}
	case !wire.Is(err, wire.NoNode):
		return nil, s.classify(err)
	}
	switch err := lease.Err; {
	case err == nil:
		now.held, now.leased, now.owner = true, lease.Stat.Czxid, lease.Stat.EphemeralOwner
		now.label, now.foreign = readLabel(k, lease)
	case !wire.Is(err, wire.NoNode):
		return nil, s.classify(err)
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

// View implements backends.Snapshot.
func (s *state) View(q backends.Request) backends.View {
	if !s.held {
		return backends.BeatView(s.record, nil, q.TTL)
	}
	v := backends.BeatView(s.record, &s.label, q.TTL)
	v.Foreign = s.foreign
	return v
}

// Newer implements backends.Snapshot.
func (s *state) Newer(than backends.Snapshot) bool { return s.written > of(than).written }

// Complete implements backends.Snapshot.
func (s *state) Complete(g *backends.Grant) { g.Native = strconv.FormatInt(s.leased, 10) }

// isUnder says whether the lease goes with a session.
func (s *state) isUnder(x *session) bool { return s != nil && s.held && s.owner == x.id() }
