package consul

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// mayRead tells keys that are not there from those that a token may not see: a list leaves both out, and only a
// question for one key is refuses.
func (s *store) mayRead(ctx context.Context, key string) error {
	_, _, err := s.client.KV().Get(key, query(ctx))
	return s.roundTripper.classify(err)
}

// isElsewhere says whether a key is one that a list of ours cannot have.
func (s *store) isElsewhere(key string) bool { return !strings.HasPrefix(key, s.cfg.root()) }

// List implements backends.Store. Consul has no pages: the answer holds all keys below the prefix.
func (s *store) List(ctx context.Context) ([]string, error) {
	keys, meta, err := s.client.KV().Keys(s.cfg.root(), "", query(ctx))
	switch {
	case err != nil:
		err = s.roundTripper.classify(err)
	case meta.LastIndex == 0 || slices.ContainsFunc(keys, s.isElsewhere):
		err = s.roundTripper.notConsul()
	case meta.ResultsFilteredByACLs:
		err = s.roundTripper.classify(fmt.Errorf("Permission denied: the token may not read all keys below %s", s.cfg.root())) //nolint:staticcheck // as Consul says it
	case len(keys) == 0:
		err = s.mayRead(ctx, s.cfg.root())
	}
	if err != nil {
		return nil, err
	}
	var jobs []string
	for _, key := range keys {
		if job, ok := s.cfg.jobOf(key); ok {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}
