package etcd

import (
	"context"
	"slices"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	page     = 1000    // keys are listed with one request
	mostList = 8 << 20 // bytes that all names of a list may need
	perName  = 64      // of them, beside the name itself
)

// List implements backends.Store.
func (s *store) List(ctx context.Context) (jobs []string, err error) {
	from, end := below(s.cfg.prefix)
	for size := 0; ; {
		reply, err := s.client.Range(ctx, rpc.Range{Key: from, End: end, Limit: page, KeysOnly: true})
		if err != nil {
			return jobs, s.classify(err)
		}
		for _, kv := range reply.KVs {
			if job, ok := s.cfg.jobOf(string(kv.Key)); ok {
				jobs = append(jobs, job)
				size += len(job) + perName
			}
		}
		if size > mostList {
			return nil, httplimit.ErrTooLarge
		}
		if !reply.More || len(reply.KVs) == 0 {
			return jobs, nil
		}
		from = slices.Concat(reply.KVs[len(reply.KVs)-1].Key, []byte{0}) // what follows the last one
	}
}
