package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

const (
	watchRetry   = 200 * time.Millisecond
	watchRetries = 5 * time.Second
)

// Watch implements backends.Watcher by a watch on all keys. It sends Look when the watch stands, also after a
// reconnection: who looks then sees what happened before. The channel is closed before ctx ends only where no
// retry helps.
func (d *Driver) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ch := make(chan backends.News, 1)
	k := d.cfg.keys(job)
	from, end := below(string(bytes.TrimSuffix(k.lease, []byte("/lease"))))
	go func() {
		defer close(ch)
		for pause := watchRetry; ; pause = min(2*pause, watchRetries) {
			began := time.Now()
			err := d.client.Watch(ctx, from, end, 0, func(r rpc.WatchReply) {
				if r.Created {
					backends.Tell(ch, backends.News{Look: true})
				}
				for _, e := range r.Events {
					if n := k.news(e); n != (backends.News{}) {
						backends.Tell(ch, n)
					}
				}
			})
			if isPermanent(d.classify(err)) {
				return
			}
			if time.Since(began) > watchRetries { // one that breaks as soon as it stands makes everybody look each time
				pause = watchRetry
			}
			select {
			case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // jitter
			case <-ctx.Done():
				return
			case <-d.closing:
				return
			}
		}
	}()
	return ch, nil
}

// news says what a change means to those who wait for the job and to its holder.
func (k keys) news(e rpc.Event) backends.News {
	switch {
	case bytes.Equal(e.KV.Key, k.lease):
		// The key of the next holder is no reason to look, one that was written by hand is.
		return backends.News{Look: e.Deleted || e.KV.ModRevision != e.KV.CreateRevision}
	case bytes.Equal(e.KV.Key, k.beat):
		var b beat
		if e.Deleted || json.Unmarshal(e.KV.Value, &b) != nil {
			return backends.News{Look: true}
		}
		return backends.News{Seen: backends.Evidence{Token: b.Token, Beat: e.KV.ModRevision}}
	case !bytes.Equal(e.KV.Key, k.record):
		return backends.News{}
	}
	var r backends.Record
	if e.Deleted || readRecord(e.KV.Value, &r) != nil {
		return backends.News{Look: true}
	}
	// A record that was lost or rolled back may tell of an earlier run than the one that is asked to stop.
	return backends.News{Look: r.Free() || r.Break != nil && r.Break.Token >= r.Token}
}
