package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// state is what Consul keeps about a job, as one read showed it or one write left it.
type state struct {
	job    string
	record backends.Record
	index  uint64 // of the record's last change; 0: there is none
	lock   lock
}

// lock is the key that a session holds while the job runs. We never delete it.
type lock struct {
	session string // "": nobody holds it
	index   uint64 // of its last change; 0: there is none
	owner   owner
}

// owner is the value of the lock. It stays when the session ends without us, and is empty after a release.
type owner struct {
	Holder backends.Holder `json:"holder"`
	Token  int64           `json:"token"`
	TTL    int64           `json:"ttl"` // ms
}

// isOurs says whether it is what leaderrun writes.
func (o *owner) isOurs() bool { return o.Token > 0 && o.TTL > 0 && o.TTL <= maxTTL.Milliseconds() }

// errAnswer says that the answer to a question is not one that Consul would give.
var errAnswer = errors.New("the answer makes no sense")

// parse reads the keys of a job. What else is below its name is not ours.
func (c *config) parse(job string, pairs api.KVPairs) (*state, error) {
	s := &state{job: job}
	dir := c.dir(job)
	for _, p := range pairs {
		switch {
		case p == nil || p.Key == "" || p.ModifyIndex == 0,
			p.Key == dir+recordName && s.index != 0, p.Key == dir+lockName && s.lock.index != 0:
			return nil, errAnswer
		case p.Key == dir+recordName:
			s.index = p.ModifyIndex
			var err error
			if s.record, err = backends.ParseRecord(p.Value); err == nil && s.record.Job != job {
				err = fmt.Errorf("it is of the job %q", httplimit.Brief(s.record.Job))
			}
			if err != nil {
				return nil, backends.Misconfigured(prefixHint, "the key %s holds no record of leaderrun: %w", p.Key, httplimit.BriefError(err))
			}
		case p.Key == dir+lockName:
			s.lock.session, s.lock.index = p.Session, p.ModifyIndex
			free := p.Session == "" && len(p.Value) == 0
			if !free && (json.Unmarshal(p.Value, &s.lock.owner) != nil || !s.lock.owner.isOurs()) {
				return nil, backends.Misconfigured(prefixHint, "the key %s holds no lock of leaderrun", p.Key)
			}
		}
	}
	return s, nil
}

// of returns what a snapshot of this store is.
func of(now backends.Snapshot) *state {
	s, _ := now.(*state)
	return s
}

// View implements backends.Snapshot. A lease is valid while a session holds the lock.
//
// Consul itself cannot prove that a holder whose session is gone is dead. A session ends after twice its TTL of
// silence, but also at once: destroyed by an operator, or with the node of its agent when that leaves, which is
// also when its holder may not reach Consul to hear of it. The lock-delay that follows lives in the memory of
// the leader; a restored snapshot or the first moments of a new leader do not know it. And an operator can free
// the lock of a living session, or delete it. So all of it is judged by silence: every renewal writes a beat
// into the record, in the transaction that finds the lock as it was, and who saw no beat for a whole TTL claims
// in a transaction that finds the record as it was. That rests on nothing but the Raft log and our own clock.
func (s *state) View(backends.Request) backends.View {
	v := backends.View{Record: s.record, Now: time.Now(), Proof: backends.ByBeat}
	o := s.lock.owner
	lags := o.Token > s.record.Token // the record was deleted or rolled back; the lock still tells of the run
	if lags {
		v.Record.TTL = max(s.record.TTL, o.TTL)
	}
	switch {
	case s.lock.session != "":
		v.Lease = &backends.Lease{Holder: o.Holder.ID, Token: o.Token, Left: s.left(v.Now)}
	case lags:
		v.Record.Job, v.Record.Token, v.Record.Holder = s.job, o.Token, o.Holder
	}
	return v
}

// left returns how long the lease lasts if it is not renewed: Consul waits for twice its TTL, and does not tell
// since when. The holder's clock may differ from ours, so the answer is bounded; it serves to look again.
func (s *state) left(now time.Time) time.Duration {
	ttl := time.Duration(s.lock.owner.TTL) * time.Millisecond
	end := time.UnixMilli(s.record.Until).Add(ttl)
	if s.record.Token != s.lock.owner.Token {
		end = now.Add(2 * ttl)
	}
	return min(max(end.Sub(now), time.Second), 2*ttl)
}

// Newer implements backends.Snapshot.
func (s *state) Newer(than backends.Snapshot) bool { return s.index > of(than).index }

// Complete implements backends.Snapshot. The lock's index is that of the transaction that took it: renewals leave it alone.
func (s *state) Complete(g *backends.Grant) { g.Native = strconv.FormatUint(s.lock.index, 10) }

// query returns the options of a read that may decide.
func query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// Read implements backends.Tx: both keys of one moment, vouched for by most servers.
func (t *tx) Read(ctx context.Context) (backends.Snapshot, error) {
	s, _, err := t.list(t.q.Job, query(ctx))
	return s, err
}

// list reads a job's keys with the given options, and returns the index to wait for a change after.
func (s *store) list(job string, q *api.QueryOptions) (*state, uint64, error) {
	pairs, meta, err := s.client.KV().List(s.cfg.dir(job), q)
	switch {
	case err != nil:
		return nil, 0, s.roundTripper.classify(err)
	case meta.LastIndex == 0: // a web server that has no such page
		return nil, 0, s.roundTripper.notConsul()
	case meta.ResultsFilteredByACLs:
		return nil, 0, s.roundTripper.classify(fmt.Errorf("Permission denied: the token may not read all keys below %s", s.cfg.dir(job))) //nolint:staticcheck // as Consul says it
	}
	now, err := s.cfg.parse(job, pairs)
	return now, meta.LastIndex, err
}
