package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
)

const (
	maxLockDelay = time.Minute // Consul allows no longer one
	firstPause   = 2 * time.Millisecond
	lastPause    = 100 * time.Millisecond
	farewell     = time.Second // how long we try to destroy a session that nobody needs
)

var (
	errConflict = errors.New("somebody else was faster")
	errDelayed  = errors.New("the lock is under its lock-delay")
	errSession  = errors.New("the session is gone")
)

// lockDelay returns for how long Consul itself gives the lock to nobody after a session that held it has ended.
// It is a second net below the proof by silence (see state.view): two thirds of the TTL are two renewals.
func lockDelay(ttl time.Duration) time.Duration {
	return min(max(2*ttl/3, time.Millisecond), maxLockDelay) // the client takes 0 for the default
}

// query returns the options of a read that may decide.
func query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

func write(ctx context.Context) *api.WriteOptions { return (&api.WriteOptions{}).WithContext(ctx) }

// read returns what Consul keeps about a job: both keys of one moment, vouched for by most servers.
func (d *Driver) read(ctx context.Context, job string) (*state, error) {
	s, _, err := d.list(job, query(ctx))
	return s, err
}

// list reads a job's keys with the given options, and returns the index to wait for a change after.
func (d *Driver) list(job string, q *api.QueryOptions) (*state, uint64, error) {
	pairs, meta, err := d.client.KV().List(d.cfg.dir(job), q)
	switch {
	case err != nil:
		return nil, 0, d.link.classify(err)
	case meta.LastIndex == 0: // a web server that has no such page
		return nil, 0, d.link.notConsul()
	case meta.ResultsFilteredByACLs:
		return nil, 0, d.link.classify(fmt.Errorf("Permission denied: the token may not read all keys below %s", d.cfg.dir(job))) //nolint:staticcheck // as Consul says it
	}
	s, err := d.cfg.parse(job, pairs)
	return s, meta.LastIndex, err
}

// take is the step that gives the lock to a session.
func (s *state) take(session string, g *backends.Grant) *api.KVTxnOp {
	value := backends.Marshal(owner{Holder: g.Claim.Holder, Token: g.Token, TTL: g.TTL.Milliseconds()})
	return &api.KVTxnOp{Verb: api.KVLock, Value: value, Session: session}
}

// free is the step that releases the lock. Unlike the end of a session it leaves no lock-delay.
func (s *state) free() *api.KVTxnOp { return &api.KVTxnOp{Verb: api.KVUnlock, Session: s.lock.session} }

// commit writes a record, and with it takes or frees the lock, if both keys are still as s says; the index of the
// lock changes with its session. It returns what the keys are then. On errConflict, errDelayed and errSession
// nothing was written; on any other error that is not known.
func (d *Driver) commit(ctx context.Context, s *state, r backends.Record, step *api.KVTxnOp) (*state, error) {
	dir := d.cfg.dir(s.job)
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
		kv.Namespace, kv.Partition = d.cfg.namespace, d.cfg.partition
		ops = append(ops, &api.TxnOp{KV: kv})
	}
	ok, reply, _, err := d.client.Txn().Txn(ops, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, d.link.classify(err)
	}
	if !ok {
		return nil, d.link.classify(rolledBack(reply.Errors))
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

// newSession makes the session that is to hold a claim's lock. It has no health checks: they would end it for a
// network that flaps, long before its TTL.
func (d *Driver) newSession(ctx context.Context, c backends.Claim) (string, error) {
	id, _, err := d.client.Session().CreateNoChecks(&api.SessionEntry{
		Name: fmt.Sprintf("leaderrun %s, %s, process %d", c.Job, c.Holder.Host, c.Holder.PID),
		TTL:  c.TTL.String(), LockDelay: lockDelay(c.TTL), Behavior: api.SessionBehaviorRelease,
	}, write(ctx))
	if err == nil && id == "" {
		err = d.link.notConsul()
	}
	return id, d.link.classify(err)
}

// renewSession keeps a session for its TTL from now; Consul waits for twice that.
func (d *Driver) renewSession(ctx context.Context, id string) error {
	entry, _, err := d.client.Session().Renew(id, write(ctx))
	if err == nil && entry == nil {
		return errSession
	}
	return d.link.classify(err)
}

// destroy ends a session that holds nothing. Should that fail, it ends by itself.
func (d *Driver) destroy(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	_, _ = d.client.Session().Destroy(id, write(ctx))
}

// pause waits before a step is decided anew, longer with each time that it was. It returns why it must not be.
func pause(ctx context.Context, times int) error {
	if times == 0 {
		return context.Cause(ctx)
	}
	limit := min(firstPause<<min(times-1, 10), lastPause)
	select {
	case <-time.After(rand.N(limit)): //nolint:gosec // jitter
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
