package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

// Swap implements backends.Tx, by one update of the Lease as it was read.
func (t *tx) Swap(ctx context.Context, was backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	old, send := of(was), t.client.Update
	if old.lease == nil {
		send = t.client.Create
		if err := t.mayRenew(ctx); err != nil {
			return nil, false, err
		}
	}
	l := old.changed(t.cfg, t.q.Job, w)
	kept, err := send(ctx, l)
	switch {
	case api.Says(err, api.Conflict), api.Says(err, api.AlreadyExists), isMissing(err):
		now, err := t.read(ctx, t.q.Job)
		return now, false, err
	case err != nil:
		return nil, false, t.classify(ctx, err)
	}
	next, err := t.cfg.state(t.q.Job, kept)
	if err == nil && (next.version < old.version || w.Lease != nil && next.version == old.version) {
		err = errReply
	}
	return next, err == nil, err
}

// mayRenew returns an error if we may create a Lease, and not update it: then a run could neither be renewed nor end. It asks before the
// first Lease that this client creates; what comes later is an update. A server that does not say is believed.
func (s *store) mayRenew(ctx context.Context) error {
	if s.mayUpdate.Load() {
		return nil
	}
	allowed, err := s.client.Allowed(ctx, "update")
	if err == nil && !allowed {
		return backends.Denied(roleHint, fmt.Errorf("may not update leases in namespace %s", s.cfg.namespace))
	}
	s.mayUpdate.Store(err == nil)
	return nil
}

// changed returns the Lease as a write makes it. What people and other programs read of it is what they expect of one.
func (s *state) changed(cfg *config, job string, w backends.Write) *api.Lease {
	l := &api.Lease{Name: cfg.leaseName(job)}
	if s.lease != nil {
		l = s.lease.Clone()
	}
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	maps.Copy(l.Labels, cfg.labels())
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[recordKey], l.Annotations[prefixKey] = string(backends.Marshal(w.Record)), cfg.prefix
	delete(l.Annotations, beatKey)
	if !w.Beat && s.lease != nil {
		l.Annotations[beatKey] = strconv.FormatInt(s.record.Beat, 10)
	}
	if w.Release || w.Record.Free() {
		l.Spec.HolderIdentity = ""
	}
	if w.Lease == nil {
		return l
	}
	now := time.UnixMilli(w.Record.Until - w.Record.TTL)
	if w.Record.Token != s.record.Token {
		l.Spec.AcquireTime = now
		if s.record.Token != 0 {
			l.Spec.LeaseTransitions++
		}
	}
	l.Spec.HolderIdentity, l.Spec.RenewTime = identity(w.Record.Holder), now
	l.Spec.LeaseDurationSeconds = int32((w.Record.TTL + 999) / 1000) //nolint:gosec // of 68 years
	return l
}
