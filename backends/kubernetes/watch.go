package kubernetes

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

const watchLongest = 5 * time.Minute // then a new one begins: one that was cut off unnoticed tells nothing

// Watch implements backends.Watcher. It sends Look when the watch stands, also after an interruption: who looks then
// sees what happened before. Each watch begins with the Lease as it is, so it needs no resource version, and none can be
// too old. The channel is closed before ctx ends only where no retry helps.
func (d *Driver) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	return backends.Rewatch(ctx, d.life, func(ctx context.Context, tell func(backends.News)) error {
		return d.follow(ctx, job, tell)
	})
}

// follow is one watch.
func (d *Driver) follow(ctx context.Context, job string, tell func(backends.News)) error {
	var last *state
	started := func() { tell(backends.News{Look: true}) }
	err := d.client.Watch(ctx, d.cfg.leaseName(job), watchLongest, started, func(e api.Event) {
		s, err := d.cfg.state(job, e.Lease)
		if err != nil || e.Type == api.Deleted { // who looks is told what is wrong
			last = nil
			started()
			return
		}
		d.signs.lives(job, &s.record)
		if n := s.news(last); n != (backends.News{}) {
			tell(n)
		}
		last = s
	})
	return d.classify(ctx, err)
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
		n.Seen = backends.Evidence{Token: r.Token, Beat: r.Beat}
	}
	return n
}
