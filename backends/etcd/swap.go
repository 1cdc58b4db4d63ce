package etcd

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

// Swap implements backends.Tx, by one transaction. No beat can have come meanwhile without the lease. A holder's own
// renewals may overtake each other; an order, which comes from outside, compares the beat too. The lease is compared by its
// id as well, which no store ever gives twice; a store that was restored counts its revisions anew.
func (t *tx) Swap(ctx context.Context, was backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	old, k := of(was), t.cfg.keys(t.q.Job)
	unchanged := []rpc.Compare{
		{Key: k.lease, Of: rpc.ModRevision, Value: old.leased},
		{Key: k.record, Of: rpc.ModRevision, Value: old.written},
	}
	if old.held {
		unchanged = append(unchanged, rpc.Compare{Key: k.lease, Of: rpc.LeaseID, Value: old.lease})
	}
	if w.CompareBeat {
		unchanged = append(unchanged, rpc.Compare{Key: k.beat, Of: rpc.ModRevision, Value: old.beaten})
	}
	next := *old
	next.record = w.Record
	var ops []rpc.Op
	takes := w.Lease != nil && !old.held
	switch {
	case takes:
		next.held, next.lease, next.label = true, t.spare.id, *w.Lease
		ops = append(ops, rpc.Op{Put: &rpc.Put{Key: k.lease, Value: backends.Marshal(next.label), Lease: next.lease}})
	case w.Release:
		ops = append(ops, rpc.Op{Delete: k.lease})
	}
	// A renewal that changes nothing but its beat leaves the record as it is.
	writes := old.written == 0 || !w.Beat || !backends.SameButBeat(old.record, w.Record)
	if writes {
		ops = append(ops, rpc.Op{Put: &rpc.Put{Key: k.record, Value: backends.Marshal(w.Record)}})
	}
	if w.Beat {
		b := beat{Token: w.Record.Token, Until: w.Record.Until}
		ops = append(ops, rpc.Op{Put: &rpc.Put{Key: k.beat, Value: backends.Marshal(b)}})
	}
	reply, err := t.client.Txn(ctx, rpc.Txn{If: unchanged, Then: ops, Else: k.read()})
	if takes && (err == nil && reply.Succeeded || err != nil && !refused(err)) {
		t.spare.used = true
	}
	if err != nil {
		return nil, false, t.classify(err)
	}
	if !reply.Succeeded {
		now, err := t.state(k, reply)
		return now, false, err
	}
	if err := t.sameCluster(reply.Header.ClusterID); err != nil { // keys that are nowhere are the same in all
		return nil, false, err
	}
	revision := reply.Header.Revision
	if revision <= max(old.written, old.leased, old.beaten) {
		return nil, false, errReply
	}
	if takes {
		next.leased = revision
	}
	if writes {
		next.written = revision
	}
	if w.Beat {
		next.beaten = revision
	}
	next.record.Beat = next.beaten
	if w.Release {
		t.revoke(ctx, old.lease)
	}
	return &next, true, nil
}
