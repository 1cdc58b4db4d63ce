package kubernetes

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

const watchLongest = 5 * time.Minute // then a new one begins: one that was cut off unnoticed tells nothing

// Follow implements backends.Store. Each watch begins with the Lease as it is, so it needs no resource version, and none
// can be too old.
func (s *store) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	var last *state
	started := func() { tell(backends.News{Look: true}) }
	watch := func(e api.Event) {
		now, err := s.cfg.state(job, e.Lease)
		if err != nil || e.Type == api.Deleted { // who looks is told what is wrong
			last = nil
			started()
			return
		}
		s.signs.lives(job, &now.record)
		if n := now.news(last); n != (backends.News{}) {
			tell(n)
		}
		last = now
	}
	for again := true; ; again = false {
		err := s.classify(ctx, s.client.Watch(ctx, s.cfg.leaseName(job), watchLongest, started, watch))
		if !again || !backends.IsPermanent(err) { // a server that was starting when it refused may be asked when it has started
			return err
		}
	}
}

// news says what a change means to those who wait for the job and to its holder. Without an earlier state the watch has
// only begun.
func (s *state) news(last *state) (n backends.News) {
	r := &s.record
	was := last != nil
	n.Look = r.Free() && !(was && last.record.Free()) ||
		!r.Free() && !s.held() && (!was || last.held() || last.record.Token != r.Token) ||
		r.Break != nil && !(was && last.record.Break != nil && *last.record.Break == *r.Break)
	if r.Token != 0 {
		n.Seen = backends.LastSeen{Token: r.Token, Beat: r.Beat}
	}
	return n
}
