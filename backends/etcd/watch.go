package etcd

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

// Follow implements backends.Store by a watch on all keys.
func (s *store) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	k := s.cfg.keys(job)
	from, end := below(string(bytes.TrimSuffix(k.lease, []byte("/lease"))))
	err := s.client.Watch(ctx, from, end, func(r rpc.WatchReply) {
		if r.Created {
			tell(backends.News{Look: true})
		}
		for _, e := range r.Events {
			if n := k.news(e); n != (backends.News{}) {
				tell(n)
			}
		}
	})
	return s.classify(err)
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
		return backends.News{Seen: backends.LastSeen{Token: b.Token, Beat: e.KV.ModRevision}}
	case !bytes.Equal(e.KV.Key, k.record):
		return backends.News{}
	}
	r, err := backends.ParseRecord(e.KV.Value)
	if e.Deleted || err != nil {
		return backends.News{Look: true}
	}
	return backends.News{Look: r.Free() || r.AsksToStop()}
}
