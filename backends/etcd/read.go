package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
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

	left  time.Duration // of the lease, in whole seconds; only for those who look
	notes []string      // the same
}

// of returns what a snapshot of this store is.
func of(now backends.Snapshot) *state {
	s, _ := now.(*state)
	return s
}

// Read implements backends.Tx.
func (t *tx) Read(ctx context.Context) (backends.Snapshot, error) {
	if t.q.Op == backends.ToInspect && !t.q.Brief {
		return t.inspect(ctx, t.q.Job)
	}
	return t.read(ctx, t.q.Job)
}

// read reads all keys in one linearizable step.
func (s *store) read(ctx context.Context, job string) (*state, error) {
	k := s.cfg.keys(job)
	reply, err := s.client.Txn(ctx, rpc.Txn{Then: k.read()})
	if err != nil {
		return nil, s.classify(err)
	}
	return s.state(k, reply)
}

// read are the operations that state reads the reply of.
func (k keys) read() []rpc.Op {
	return []rpc.Op{{Range: &rpc.Range{Key: k.lease}}, {Range: &rpc.Range{Key: k.record}}, {Range: &rpc.Range{Key: k.beat}}}
}

func (s *store) state(k keys, reply rpc.TxnReply) (*state, error) {
	strange := func(r rpc.RangeReply) bool { return len(r.KVs) > 1 || len(r.KVs) == 1 && r.KVs[0].ModRevision <= 0 }
	if len(reply.Ranges) != 3 || slices.ContainsFunc(reply.Ranges, strange) {
		return nil, errReply
	}
	if err := s.sameCluster(reply.Header.ClusterID); err != nil {
		return nil, err
	}
	now := new(state)
	for _, kv := range reply.Ranges[0].KVs {
		now.held, now.leased, now.lease = true, kv.ModRevision, kv.Lease
		now.label, now.foreign = readLabel(k, kv)
	}
	for _, kv := range reply.Ranges[1].KVs {
		now.written = kv.ModRevision
		var err error
		if now.record, err = backends.ParseRecord(kv.Value); err != nil {
			return nil, backends.Misconfigured(prefixHint, "the key %s holds no record of leaderrun: %w", k.record, httplimit.BriefError(err))
		}
	}
	now.record.Beat = 0
	for _, kv := range reply.Ranges[2].KVs {
		now.beaten, now.record.Beat = kv.ModRevision, kv.ModRevision
		var b beat
		if json.Unmarshal(kv.Value, &b) == nil && b.Token == now.record.Token {
			now.record.Until = max(now.record.Until, b.Until)
		}
	}
	return now, nil
}

// sameCluster checks that all answers to a driver come from one cluster, as long as it lives. Servers that know nothing of
// each other would each give the lease to somebody. A cluster that was made anew knows nothing of the leases of the old one:
// who has met that one must not take them for free.
func (s *store) sameCluster(id uint64) error {
	if s.cluster.CompareAndSwap(0, id) || s.cluster.Load() == id {
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

// View implements backends.Snapshot. etcd would need one more request to tell what is left of a lease.
func (s *state) View(q backends.Request) backends.View {
	if !s.held {
		v := backends.BeatView(s.record, nil, q.TTL)
		v.Notes = s.notes
		return v
	}
	v := backends.BeatView(s.record, &s.label, q.TTL)
	v.Foreign, v.Notes = s.foreign, s.notes
	if q.Op == backends.ToInspect && !q.Brief {
		v.Lease.Left = s.left
	}
	return v
}

// Newer implements backends.Snapshot.
func (s *state) Newer(than backends.Snapshot) bool { return s.beaten > of(than).beaten }

// Complete implements backends.Snapshot.
func (s *state) Complete(g *backends.Grant) { g.Native = strconv.FormatInt(s.leased, 10) }

// heldBy says whether the lease key is a holder's.
func (s *state) heldBy(holder string) bool {
	return s.held && s.foreign == nil && s.label.Holder == holder
}

// sameLease says whether the lease key is the one of another state, also after the store counts its revisions anew.
func (s *state) sameLease(as *state) bool { return s.leased == as.leased && s.lease == as.lease }
