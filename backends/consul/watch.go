package consul

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	watchWait = 20 * time.Second // a question about no change is answered after that, and up to 1/16 more
	watchLate = 5 * time.Second  // what the network may add
	watchRest = 200 * time.Millisecond
)

// Follow implements backends.Store by blocking queries for both keys of the job, on a connection of their own.
//
// Every beat thereby wakes every standby of the job: an answer of some kilobytes a renewal, three times a TTL. That
// is what a standby needs for its proof of a death, and one query for both keys is less than two. It does not ask
// most servers whether the leader still is one: what a watch tells decides nothing.
//
// It asks for one change after another until a question fails.
//
// A store that was restored from a snapshot counts anew, and its first answer still tells of the old one. So what
// goes backwards, or comes early with nothing new, makes the next question one that is answered at once.
func (s *store) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	var last *state
	for index := uint64(0); ; {
		asked := time.Now()
		now, next, err := s.change(ctx, job, index)
		if err != nil {
			return err
		}
		n := now.news(last)
		nothing := n == (backends.News{})
		if next < index || nothing && index != 0 && time.Since(asked) < watchWait {
			next = 0
		}
		last, index = now, next
		if !nothing {
			tell(n)
			continue
		}
		select {
		case <-time.After(watchRest):
		case <-ctx.Done():
		}
	}
}

// change returns what is kept about a job as soon as the index is over, or a while later.
func (s *store) change(ctx context.Context, job string, index uint64) (*state, uint64, error) {
	ctx, cancel := context.WithTimeout(httplimit.Watch(ctx), watchWait+watchWait/16+watchLate)
	defer cancel()
	q := &api.QueryOptions{WaitIndex: index, WaitTime: watchWait}
	return s.list(job, q.WithContext(ctx))
}

// news compares two states of a job. Without an earlier one it says to look: what happened before went unseen.
func (s *state) news(last *state) (n backends.News) {
	r := &s.record
	n.Look = last == nil || s.lock != last.lock || // the lock of a run that vanished stays as it is when the run ends
		r.Free() && !last.record.Free() ||
		r.Break != nil && (last.record.Break == nil || *r.Break != *last.record.Break)
	if r.Token != 0 && (last == nil || r.Token != last.record.Token || r.Beat != last.record.Beat) {
		n.Seen = backends.LastSeen{Token: r.Token, Beat: r.Beat}
	}
	return n
}
