package model

import (
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// kubernetes has one object for all, and nothing in it ends by itself: the lease of a state is who the object says holds
// it. Its resource version is the beat: none comes again, and whatever is changed is a sign of life. Whether a lease
// that somebody else has counts is asked of the candidate's own clock, and before it has watched anything, of the clocks of
// two hosts, which may say anything.
type kubernetes struct{}

func (kubernetes) traits() traits {
	return traits{name: "Kubernetes", beats: true, twoStep: true, tells: true, writes: true, object: true}
}

func (kubernetes) view(m *model, s *state, at int, l look) backends.View {
	k := &s.site[at].kept
	v := backends.View{Record: m.recordOf(k), Now: clock(s.now), Proof: backends.ByBeat}
	r := &v.Record
	if k.lease.holder == 0 || r.Free() || r.Holder.ID != number(k.lease.holder) {
		return v
	}
	left := time.Duration(r.TTL) * time.Millisecond
	shown := sign{tokenOf(r.Token), k.beat}
	switch {
	case k.lease.holder == l.by:
	case l.seen.token == shown.token && l.seen.beat != shown.beat: // it lives
	case !l.fresh:
		left = 0
	case l.seen == shown:
		left -= length(l.quiet)
	}
	if left > 0 {
		v.Lease = &backends.Lease{Holder: number(k.lease.holder), Token: r.Token, Left: left}
	}
	return v
}

func (kubernetes) floor(*kept) token                       { return 0 }
func (kubernetes) foreign(*model, *kept, label) bool       { return false }
func (kubernetes) free(k *kept)                            { k.lease = lease{} }
func (kubernetes) counted(*model, *state, int, bool) acked { return enough }
func (kubernetes) take(k *kept, l label, _ moment)         { k.lease = lease{l.token, l.holder, 0} }
func (kubernetes) extend(*kept, label, moment)             {}
func (kubernetes) pass(*kept, moment)                      {}

// events: a copy of the object is put aside now and then.
func (kubernetes) events(m *model, s *state) {
	if m.keepsReplica() && s.replica != s.site[0].kept {
		n := *s
		n.replica = n.site[0].kept
		m.add(n, "", "the object is saved")
	}
}
