package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestNoBeatComesTwice: somebody deletes what tells of a live holder's beats, or puts back what it was. A sign of life
// that a candidate has seen long ago must not come again.
func TestNoBeatComesTwice(t *testing.T) {
	w := newWorld(t)
	k := w.d.store.cfg.keys("job")
	for name, tamper := range map[string]func(first rpc.TxnReply){
		"record deleted": func(rpc.TxnReply) { w.operator.do(t, rpc.Op{Delete: k.record}) },
		"beat deleted":   func(rpc.TxnReply) { w.operator.do(t, rpc.Op{Delete: k.beat}) },
		"both deleted":   func(rpc.TxnReply) { w.operator.do(t, rpc.Op{Delete: k.record}, rpc.Op{Delete: k.beat}) },
		"record deleted, and a candidate writes one before the holder does": func(rpc.TxnReply) {
			w.operator.do(t, rpc.Op{Delete: k.record})
			candidate := newClaim("job")
			candidate.Tick = time.Now().Unix()
			w.Refused(w.other, candidate, backends.Held)
		},
		"beat deleted, and the record has the number of one that was seen": func(first rpc.TxnReply) {
			var r backends.Record
			if err := json.Unmarshal(first.Ranges[1].KVs[0].Value, &r); err != nil {
				t.Fatal(err)
			}
			r.Beat = first.Ranges[2].KVs[0].ModRevision
			w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: k.record, Value: backends.Marshal(r)}}, rpc.Op{Delete: k.beat})
		},
		"what they were at first": func(first rpc.TxnReply) {
			w.operator.do(t,
				rpc.Op{Put: &rpc.Put{Key: k.record, Value: first.Ranges[1].KVs[0].Value}},
				rpc.Op{Put: &rpc.Put{Key: k.beat, Value: first.Ranges[2].KVs[0].Value}})
		},
	} {
		for _, renewed := range []bool{true, false} {
			g := w.Acquire(w.d, newClaim("job"))
			first, err := w.operator.client.Txn(t.Context(), rpc.Txn{Then: k.read()})
			if err != nil {
				t.Fatal(err)
			}
			candidate := newClaim("job")
			candidate.Seen = w.Refused(w.other, candidate, backends.Held).Seen
			candidate.Seen.For = time.Hour
			w.Renew(w.d, g)
			tamper(first)
			if renewed {
				w.Renew(w.d, g)
			} else if w.operator.state(t, "job").record.Token == 0 { // and with the lease every trace would be gone
				w.Finish(w.d, g)
				w.operator.do(t, rpc.Op{Delete: k.record}, rpc.Op{Delete: k.beat})
				continue
			}
			w.operator.deleteLease(t, "job")
			if _, err := w.other.Acquire(t.Context(), candidate); err == nil {
				t.Fatalf("%s, renewed: %v: granted beside a live holder", name, renewed)
			}
			w.Finish(w.d, g)
			w.operator.do(t, rpc.Op{Delete: k.record}, rpc.Op{Delete: k.beat})
		}
	}
}

// TestEmptiedByHand: who deletes lease and record has removed every trace of a run, and the job is free at once.
// The old run ends at its next renewal, and tokens grow.
func TestEmptiedByHand(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	w.server.Ctl(t, "del", "--prefix", "")
	next := w.Acquire(w.other, newClaim("job"))
	if next.Token <= g.Token {
		t.Errorf("token %d after %d", next.Token, g.Token)
	}
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
	w.WantLost("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
	w.Finish(w.other, next)
}

// TestForeignKeys: what leaderrun did not write is never taken for a free job, never overwritten, and named.
func TestForeignKeys(t *testing.T) {
	w := newWorld(t)
	k := w.d.store.cfg.keys("job")
	foreign := func(what string, key []byte) {
		t.Helper()
		before := w.server.Ctl(t, "get", "--prefix", "", "-w", "json")
		_, acquire := w.other.Acquire(t.Context(), newClaim("job"))
		_, inspect := w.other.Inspect(t.Context(), "job")
		for step, err := range map[string]error{
			"Acquire": acquire, "Inspect": inspect,
			"Order": w.other.Order(t.Context(), suite.NewOrder(backends.ForceRelease, backends.Grant{Claim: newClaim("job"), Token: 1})),
		} {
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != backends.Configuration || !strings.Contains(err.Error(), string(key)) {
				t.Errorf("%s: %s: %v", what, step, err)
			}
		}
		after := w.server.Ctl(t, "get", "--prefix", "", "-w", "json")
		if cut := func(s string) string { _, s, _ = strings.Cut(s, `"kvs"`); return s }; cut(before) != cut(after) {
			t.Errorf("%s: was %s, is %s", what, before, after)
		}
	}
	for _, value := range []string{"", "x", "null", "{}", "[]", `{"holder":"a"}`, `{"holder":"","token":1}`, `{"holder":"a","token":-1}`, `{"holder":1,"token":1}`, "\xff\x00"} {
		for _, attached := range []bool{false, true} {
			g := w.Acquire(w.d, newClaim("job"))
			put := &rpc.Put{Key: k.lease, Value: []byte(value)}
			if attached {
				put.Lease = w.operator.state(t, "job").lease
			}
			w.operator.do(t, rpc.Op{Put: put})
			foreign(fmt.Sprintf("lease %q", value), k.lease)
			_, err := w.d.Renew(t.Context(), g)
			w.WantLost("Renew", err)
			w.WantLost("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
			if err := w.d.Abandon(t.Context(), newClaim("job")); err != nil {
				t.Errorf("Abandon: %v", err)
			}
			if s := w.operator.state(t, "job"); !s.held {
				t.Errorf("lease %q is gone", value)
			}
			w.operator.deleteLease(t, "job")
			w.Finish(w.d, g)
		}
	}
	// The right words in the wrong place: a copy of our lease that does not expire.
	g := w.Acquire(w.d, newClaim("job"))
	w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: k.lease, Value: backends.Marshal(backends.LabelOf(g))}})
	foreign("a copy", k.lease)
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
	w.operator.deleteLease(t, "job")

	// The right words in the right place, under a lease that nobody renews.
	other, err := w.operator.client.Grant(t.Context(), 4711, 60)
	if err != nil {
		t.Fatal(err)
	}
	w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: k.lease, Value: backends.Marshal(backends.LabelOf(g)), Lease: other.ID}})
	_, err = w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
	w.operator.deleteLease(t, "job")

	for _, value := range []string{"", "x", "null", "[]", `"x"`, "1", `{"token":"x"}`, `{"token":1`, "\xff\x00"} {
		w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: k.record, Value: []byte(value)}})
		foreign(fmt.Sprintf("record %q", value), k.record)
		for step, err := range map[string]error{
			"Finish": w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}), "Abandon": w.d.Abandon(t.Context(), newClaim("job")),
		} {
			if !backends.IsPermanent(err) {
				t.Errorf("record %q: %s: %v", value, step, err)
			}
		}
	}
}
