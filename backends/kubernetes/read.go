package kubernetes

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// errReply says that the server answered something else than it was asked.
var errReply = errors.New("the reply makes no sense")

// state is a job's Lease as it was read in one step. It is not changed.
//
// The resource version that a grant or renewal left is the record's beat, whatever the record says: none ever comes
// again, also not when somebody puts back what a Lease once held. What else we write says beside it what the beat was,
// and is believed as long as nobody else has written the record or that. An update of somebody else's counts as a beat,
// too, if it changes them or there is no such note; that only delays.
type state struct {
	lease   *api.Lease // nil: there is none
	version int64      // the resource version; 0: there is none
	record  backends.Record
	lives   bool // the beat was seen to go on less than a TTL ago
}

// of returns what a snapshot of this store is.
func of(now backends.Snapshot) *state {
	s, _ := now.(*state)
	return s
}

// Read implements backends.Tx.
func (t *tx) Read(ctx context.Context) (backends.Snapshot, error) { return t.read(ctx, t.q.Job) }

// read reads the Lease of a job as most members of the store have it.
func (s *store) read(ctx context.Context, job string) (*state, error) {
	l, err := s.client.Get(ctx, s.cfg.leaseName(job))
	if isMissing(err) {
		return new(state), nil
	}
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	now, err := s.cfg.state(job, l)
	if err == nil {
		now.lives = s.signs.lives(job, &now.record)
	}
	return now, err
}

// state reads a Lease. One that is not ours is never taken for free, nor written to.
func (c *config) state(job string, l *api.Lease) (*state, error) {
	s := &state{lease: l}
	text, ok := l.Annotations[recordKey]
	if !ok {
		return nil, backends.Misconfigured(prefixHint, "%s is another program's: it has no annotation %s", c.about(job), recordKey)
	}
	var err error
	if s.record, err = backends.ParseRecord([]byte(text)); err != nil {
		return nil, backends.Misconfigured(prefixHint, "%s: the annotation %s holds no record of leaderrun: %w", c.about(job), recordKey, httplimit.BriefError(err))
	}
	if prefix := l.Annotations[prefixKey]; s.record.Job != job || prefix != c.prefix {
		return nil, backends.Misconfigured(prefixHint, "%s is of the job %q with the prefix %q", c.about(job), httplimit.Brief(s.record.Job), httplimit.Brief(prefix))
	}
	if s.version, err = strconv.ParseInt(l.ResourceVersion, 10, 64); err != nil || s.version <= 0 {
		return nil, backends.Misconfigured("this needs an API server whose resource versions are numbers, as those of Kubernetes are",
			"%s: the resource version %q is no number", c.about(job), httplimit.Brief(l.ResourceVersion))
	}
	if s.record.Token == 0 { // nobody has run it
		s.record.Beat = 0
		return s, nil
	}
	s.record.Beat = s.version
	beat, err := strconv.ParseInt(l.Annotations[beatKey], 10, 64)
	if err == nil && beat > 0 && beat < s.version && isOurs(l, recordKey) && isOurs(l, beatKey) {
		s.record.Beat = beat
	}
	return s, nil
}

// isOurs says whether an annotation is as leaderrun wrote it last, and not one that somebody has put back. A server that
// does not keep that is believed.
func isOurs(l *api.Lease, annotation string) bool {
	return !slices.ContainsFunc(l.WrittenBy(annotation), func(manager string) bool { return manager != api.Manager })
}

// identity is what kubectl shows as the holder.
func identity(h backends.Holder) string { return h.Host + "_" + h.ID }

// held says whether the Lease is still as its holder left it. One whose holder was emptied or changed by hand is not.
func (s *state) held() bool {
	return s.lease != nil && s.record.Token != 0 && !s.record.Free() && s.lease.Spec.HolderIdentity == identity(s.record.Holder)
}

func (s *state) ttl() time.Duration { return time.Duration(s.record.TTL) * time.Millisecond }

// silence returns how long ago the holder renewed by its own clock and ours, which may differ.
func (s *state) silence(now time.Time) time.Duration {
	return now.Sub(time.UnixMilli(s.record.Until).Add(-s.ttl())).Abs()
}

// View implements backends.Snapshot, for somebody who has seen what he has seen.
//
// Nothing ends a Lease of Kubernetes: its holder is there until somebody writes another one. So a holder has its lease
// as long as nobody took it, and for others it is there for a TTL after the last beat that they have seen to come. Who
// has seen none come goes by the clocks. They decide nothing but what a claim is told, Held or Vanished, and the same
// from the first time to the last: without a beat seen to be a TTL old nobody is granted.
func (s *state) View(q backends.Request) backends.View {
	asks, seen := q.Holder.ID, q.Seen
	v := backends.View{Record: s.record, Now: time.Now(), Proof: backends.ByBeat}
	if !s.held() {
		return v
	}
	left, byClock := s.ttl(), s.ttl()-s.silence(v.Now)
	known := seen.Token == s.record.Token
	switch {
	case asks == s.record.Holder.ID:
	case known && seen.Beat == s.record.Beat && (s.lives || byClock > 0):
		left -= seen.For
	case known && seen.Beat != s.record.Beat, s.lives: // there was a beat meanwhile
	default:
		left = byClock
	}
	if left > 0 {
		v.Lease = &backends.Lease{Holder: s.record.Holder.ID, Token: s.record.Token, Left: left}
	}
	return v
}

// Newer implements backends.Snapshot.
func (s *state) Newer(than backends.Snapshot) bool { return s.version > of(than).version }

// Complete implements backends.Snapshot.
func (s *state) Complete(g *backends.Grant) { g.Native = s.lease.ResourceVersion }
