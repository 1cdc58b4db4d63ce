package etcd

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

// Watch implements backends.Watcher by a watch on all keys. It sends Look when the watch stands, also after a
// reconnection: who looks then sees what happened before. The channel is closed before ctx ends only where no
// retry helps.
func (d *Driver) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	return backends.Rewatch(ctx, d.life, func(ctx context.Context, tell func(backends.News)) error {
		return d.follow(ctx, job, tell)
	})
}

// follow is one watch.
func (d *Driver) follow(ctx context.Context, job string, tell func(backends.News)) error {
	k := d.cfg.keys(job)
	from, end := below(string(bytes.TrimSuffix(k.lease, []byte("/lease"))))
	err := d.client.Watch(ctx, from, end, 0, func(r rpc.WatchReply) {
		if r.Created {
			tell(backends.News{Look: true})
		}
		for _, e := range r.Events {
			if n := k.news(e); n != (backends.News{}) {
				tell(n)
			}
		}
	})
	return d.classify(err)
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
	r, err := backends.ParseRecord(e.KV.Value)
	if e.Deleted || err != nil {
		return backends.News{Look: true}
	}
	// A record that was lost or rolled back may tell of an earlier run than the one that is asked to stop.
	return backends.News{Look: r.Free() || r.Break != nil && r.Break.Token >= r.Token}
}
