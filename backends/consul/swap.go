package consul

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
)

var (
	errConflict = errors.New("somebody else was faster")
	errDelayed  = errors.New("the lock is under its lock-delay")
	errSession  = errors.New("the session is gone")
)

// Swap implements backends.Tx, by one transaction. A lock that is freed is unlocked, and its session goes afterwards: if it
// went first, it would leave a lock-delay behind.
func (t *tx) Swap(ctx context.Context, was backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	s := of(was)
	takes := w.Lease != nil && s.lock.session == ""
	var step *api.KVTxnOp
	switch {
	case takes:
		lock := owner{Holder: t.q.Holder, Token: w.Lease.Token, TTL: w.TTL.Milliseconds()}
		step = &api.KVTxnOp{Verb: api.KVLock, Value: backends.Marshal(lock), Session: t.spare}
	case w.Release: // unlike the end of a session it leaves no lock-delay
		step = &api.KVTxnOp{Verb: api.KVUnlock, Session: s.lock.session}
	}
	now, err := t.commit(ctx, s, w.Record, step)
	if takes && !unapplied(err) {
		t.spare = "" // it has the lock, or may have it
	}
	switch {
	case errors.Is(err, errConflict), errors.Is(err, errSession):
		return nil, false, nil
	case errors.Is(err, errDelayed):
		return nil, false, s.delayed()
	case err != nil:
		return nil, false, err
	}
	if w.Release {
		t.destroy(ctx, s.lock.session)
	}
	return now, true, nil
}

// unapplied says that a transaction has certainly changed nothing.
func unapplied(err error) bool {
	p, ok := errors.AsType[*backends.PermanentError](err)
	return errors.Is(err, errConflict) || errors.Is(err, errDelayed) || ok && p.Kind == backends.Credentials
}

// delayed refuses a claim because of a lock-delay: a session that held the lock ended a moment ago.
func (s *state) delayed() *backends.Refusal {
	r := s.View(backends.Request{}).Record
	return &backends.Refusal{
		Verdict: backends.Vanished, Holder: r.Holder, Token: r.Token, Tick: r.Tick.Tick, Wait: delayLook,
		Seen: backends.LastSeen{Token: r.Token, Beat: r.Beat},
	}
}

// commit writes a record, and with it takes or frees the lock, if both keys are still as s says; the index of the
// lock changes with its session. It returns what the keys are then. On errConflict, errDelayed and errSession
// nothing was written; on any other error that is not known.
func (t *tx) commit(ctx context.Context, s *state, r backends.Record, step *api.KVTxnOp) (*state, error) {
	dir := t.cfg.dir(s.job)
	unchanged := &api.KVTxnOp{Verb: api.KVCheckIndex, Key: dir + lockName, Index: s.lock.index}
	if s.lock.index == 0 {
		unchanged.Verb = api.KVCheckNotExists
	}
	steps := []*api.KVTxnOp{unchanged, {Verb: api.KVCAS, Key: dir + recordName, Index: s.index, Value: backends.Marshal(r)}}
	if step != nil {
		step.Key = dir + lockName
		steps = append(steps, step)
	}
	var ops api.TxnOps
	for _, kv := range steps {
		kv.Namespace, kv.Partition = t.cfg.namespace, t.cfg.partition
		ops = append(ops, &api.TxnOp{KV: kv})
	}
	ok, reply, _, err := t.client.Txn().Txn(ops, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, t.roundTripper.classify(err)
	}
	if !ok {
		return nil, t.roundTripper.classify(rolledBack(reply.Errors))
	}
	return s.after(dir, r, step, reply.Results)
}

// after returns the state that a transaction left. Each key is in the answer once for each step on it, the last one as it is now.
func (s *state) after(dir string, r backends.Record, step *api.KVTxnOp, results api.TxnResults) (*state, error) {
	kept := func(name string) *api.KVPair {
		for _, x := range slices.Backward(results) {
			if x != nil && x.KV != nil && x.KV.Key == dir+name && x.KV.ModifyIndex != 0 {
				return x.KV
			}
		}
		return nil
	}
	next := &state{job: s.job, record: r, lock: s.lock}
	record := kept(recordName)
	if record == nil {
		return nil, errors.New("the answer to a transaction has no record in it")
	}
	next.index = record.ModifyIndex
	if step != nil {
		last := kept(lockName)
		if last == nil || step.Verb == api.KVLock && last.Session != step.Session {
			return nil, errors.New("the answer to a transaction has no lock in it")
		}
		next.lock = lock{session: last.Session, index: last.ModifyIndex}
		if len(step.Value) > 0 && json.Unmarshal(step.Value, &next.lock.owner) != nil {
			panic("what we wrote cannot be read")
		}
	}
	return next, nil
}

// rolledBack says why nothing of a transaction was applied.
func rolledBack(errs api.TxnErrors) error {
	var all []string
	for _, e := range errs {
		if e != nil {
			all = append(all, e.What)
		}
	}
	text := strings.Join(all, "; ")
	has := func(what string) bool { return strings.Contains(text, what) }
	switch {
	case text == "":
		return errAnswer
	case has("Permission denied"): // above all: without rights nothing else is meant
	case has("due to lock delay"):
		return errDelayed
	case has("invalid session"):
		return errSession
	case has("index is stale"), has("failed index check"), has("doesn't exist"), has("exists"),
		has("lock is already held"), has("lock isn't held"):
		return errConflict
	}
	return errors.New(text)
}
