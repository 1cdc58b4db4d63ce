package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// errReply says that the server answered something else than it was asked.
var errReply = errors.New("the reply makes no sense")

// beat is the value of a beat key, which each grant and each renewal writes. It is a key of its own because etcd
// keeps every revision until it is compacted, and a record is a hundred times as long.
type beat struct {
	Token int64 `json:"token"`
	Until int64 `json:"until"` // ms, for people: when the lease ends by the holder's clock
}

// state is what the keys of a job hold, read in one step. It is not changed.
//
// The revision of the beat key is the record's beat, whatever the record says: no revision ever comes again, also
// not when somebody puts back what a key once held. Without the key it is 0, which is no revision.
type state struct {
	record  backends.Record // zero: there is none
	written int64           // revision of the record key; 0: there is none
	beaten  int64           // revision of the beat key; 0: there is none

	held    bool           // the lease key exists
	label   backends.Label // zero: it says nothing that makes sense, and foreign why
	foreign error
	leased  int64 // revision of the lease key; 0: there is none
	lease   int64 // etcd's lease that it is attached to
}

// read reads all keys in one linearizable step.
func (d *Driver) read(ctx context.Context, job string) (*state, error) {
	k := d.cfg.keys(job)
	reply, err := d.client.Txn(ctx, rpc.Txn{Then: k.read()})
	if err != nil {
		return nil, d.classify(err)
	}
	return d.state(k, reply)
}

// read are the operations that state reads the reply of.
func (k keys) read() []rpc.Op {
	return []rpc.Op{{Range: &rpc.Range{Key: k.lease}}, {Range: &rpc.Range{Key: k.record}}, {Range: &rpc.Range{Key: k.beat}}}
}

func (d *Driver) state(k keys, reply rpc.TxnReply) (*state, error) {
	strange := func(r rpc.RangeReply) bool { return len(r.KVs) > 1 || len(r.KVs) == 1 && r.KVs[0].ModRevision <= 0 }
	if len(reply.Ranges) != 3 || slices.ContainsFunc(reply.Ranges, strange) {
		return nil, errReply
	}
	if err := d.sameCluster(reply.Header.ClusterID); err != nil {
		return nil, err
	}
	s := new(state)
	for _, kv := range reply.Ranges[0].KVs {
		s.held, s.leased, s.lease = true, kv.ModRevision, kv.Lease
		s.label, s.foreign = readLabel(k, kv)
	}
	for _, kv := range reply.Ranges[1].KVs {
		s.written = kv.ModRevision
		var err error
		if s.record, err = backends.ParseRecord(kv.Value); err != nil {
			return nil, backends.Misconfigured(prefixHint, "the key %s holds no record of leaderrun: %w", k.record, httplimit.BriefError(err))
		}
	}
	s.record.Beat = 0
	for _, kv := range reply.Ranges[2].KVs {
		s.beaten, s.record.Beat = kv.ModRevision, kv.ModRevision
		var b beat
		if json.Unmarshal(kv.Value, &b) == nil && b.Token == s.record.Token {
			s.record.Until = max(s.record.Until, b.Until)
		}
	}
	return s, nil
}

// sameCluster checks that all answers to a driver come from one cluster, as long as it lives. Servers that know nothing of
// each other would each give the lease to somebody. A cluster that was made anew knows nothing of the leases of the old one:
// who has met that one must not take them for free.
func (d *Driver) sameCluster(id uint64) error {
	if d.cluster.CompareAndSwap(0, id) || d.cluster.Load() == id {
		return nil
	}
	return backends.Misconfigured("a URL names the members of one cluster; if it was made anew, start leaderrun again when no run of the old one lives",
		"the backend URL leads to different etcd clusters")
}

// readLabel reads a lease key. One that we have not written so is never taken for free: who wrote it may run. It is written
// once and never changed: a key whose revision is not that of its creation has been tampered with.
func readLabel(k keys, kv rpc.KeyValue) (backends.Label, error) {
	l, ok := backends.ParseLabel(kv.Value)
	switch {
	case !ok:
		return backends.Label{}, backends.Misconfigured(prefixHint, "the key %s holds no lease of leaderrun", k.lease)
	case kv.Lease == 0 || kv.ModRevision != kv.CreateRevision:
		return backends.Label{}, backends.Misconfigured("who is sure that nobody runs the job deletes the key", "the key %s was written by hand: it says nothing of who runs the job", k.lease)
	}
	return l, nil
}

// view is what the decision is taken on. What is left of a lease etcd would tell with one more request.
func (s *state) view(ttl time.Duration) backends.View {
	if !s.held {
		return backends.BeatView(s.record, nil, ttl)
	}
	return backends.BeatView(s.record, &s.label, ttl)
}

// heldBy says whether the lease key is a holder's.
func (s *state) heldBy(holder string) bool {
	return s.held && s.foreign == nil && s.label.Holder == holder
}

// sameLease says whether the lease key is the one of another state, also after the store counts its revisions anew.
func (s *state) sameLease(as *state) bool { return s.leased == as.leased && s.lease == as.lease }

// change is what a step writes.
type change struct {
	record backends.Record
	alive  bool     // the holder shows that it is: a beat
	still  bool     // no beat may have come since the keys were read
	more   []rpc.Op // the lease key
}

// ops are the operations of a change. A renewal that changes nothing but its beat leaves the record as it is.
func (c change) ops(k keys, old *state) (ops []rpc.Op, wroteRecord bool) {
	ops = c.more
	if wroteRecord = old.written == 0 || !c.alive || !backends.SameButBeat(old.record, c.record); wroteRecord {
		ops = append(ops, rpc.Op{Put: &rpc.Put{Key: k.record, Value: backends.Marshal(c.record)}})
	}
	if c.alive {
		b := beat{Token: c.record.Token, Until: c.record.Until}
		ops = append(ops, rpc.Op{Put: &rpc.Put{Key: k.beat, Value: backends.Marshal(b)}})
	}
	return ops, wroteRecord
}

// swap makes a change if lease and record are still as they were read, and returns what the keys are then. If they
// are not it changes nothing, and returns what they are now: done is false. No beat can have come meanwhile without
// the lease. A holder's own renewals may overtake each other; an order, which comes from outside, compares the beat too.
// The lease is compared by its id as well, which no store ever gives twice; a store that was restored counts its
// revisions anew.
func (d *Driver) swap(ctx context.Context, job string, old *state, c change) (next *state, done bool, err error) {
	k := d.cfg.keys(job)
	unchanged := []rpc.Compare{
		{Key: k.lease, Of: rpc.ModRevision, Value: old.leased},
		{Key: k.record, Of: rpc.ModRevision, Value: old.written},
	}
	if old.held {
		unchanged = append(unchanged, rpc.Compare{Key: k.lease, Of: rpc.LeaseID, Value: old.lease})
	}
	if c.still {
		unchanged = append(unchanged, rpc.Compare{Key: k.beat, Of: rpc.ModRevision, Value: old.beaten})
	}
	ops, wroteRecord := c.ops(k, old)
	reply, err := d.client.Txn(ctx, rpc.Txn{If: unchanged, Then: ops, Else: k.read()})
	revision := reply.Header.Revision
	switch {
	case err != nil:
		return nil, false, d.classify(err)
	case !reply.Succeeded:
		next, err = d.state(k, reply)
		return next, false, err
	case revision <= max(old.written, old.leased, old.beaten):
		return nil, false, errReply
	}
	after := *old
	after.record = c.record
	if wroteRecord {
		after.written = revision
	}
	if c.alive {
		after.beaten = revision
	}
	after.record.Beat = after.beaten
	return &after, true, nil
}
