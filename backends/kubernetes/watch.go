package kubernetes

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

const (
	watchLongest = 5 * time.Minute // then a new one begins: one that was cut off unnoticed tells nothing
	watchRetry   = 200 * time.Millisecond
	watchRetries = 5 * time.Second
)

// Watch implements backends.Watcher. It sends Look when the watch stands, also after an interruption: who looks then
// sees what happened before. Each watch begins with the Lease as it is, so it needs no resource version, and none can be
// too old. The channel is closed before ctx ends only where no retry helps.
func (d *Driver) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ch := make(chan backends.News, 1)
	go func() {
		defer close(ch)
		ctx, cancel := d.during(ctx)
		defer cancel()
		for pause := watchRetry; ctx.Err() == nil; pause = min(2*pause, watchRetries) {
			began := time.Now()
			if err := d.follow(ctx, job, ch); isPermanent(err) {
				return
			}
			if time.Since(began) > watchRetries { // one that breaks as soon as it stands makes everybody look each time
				pause = watchRetry
			}
			select {
			case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // jitter
			case <-ctx.Done():
			}
		}
	}()
	return ch, nil
}

// follow is one watch.
func (d *Driver) follow(ctx context.Context, job string, ch chan backends.News) error {
	var last *state
	started := func() { backends.Tell(ch, backends.News{Look: true}) }
	err := d.client.Watch(ctx, d.cfg.leaseName(job), watchLongest, started, func(e api.Event) {
		s, err := d.cfg.state(job, e.Lease)
		if err != nil || e.Type == api.Deleted { // who looks is told what is wrong
			last = nil
			started()
			return
		}
		d.signs.lives(job, &s.record)
		if n := s.news(last); n != (backends.News{}) {
			backends.Tell(ch, n)
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
