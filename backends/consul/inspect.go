package consul

import (
	"context"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
)

// Inspect implements backends.Inspector, by one read of both keys.
func (d *Driver) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, err := d.read(ctx, job)
	if err != nil {
		return backends.Status{}, backends.About("inspect", job, err)
	}
	if s.index == 0 && s.lock.owner.Token == 0 {
		return backends.Status{}, backends.ErrUnknownJob
	}
	return backends.StatusOf(s.view(), job), nil
}

// mayRead tells keys that are not there from those that a token may not see: a list leaves both out, and only a
// question for one key is refused.
func (d *Driver) mayRead(ctx context.Context, key string) error {
	_, _, err := d.client.KV().Get(key, query(ctx))
	return d.link.classify(err)
}

// Jobs implements backends.Inspector. Consul has no pages: the answer holds all keys below the prefix.
func (d *Driver) Jobs(ctx context.Context) ([]string, error) {
	keys, meta, err := d.client.KV().Keys(d.cfg.root(), "", query(ctx))
	switch {
	case err != nil:
		err = d.link.classify(err)
	case meta.LastIndex == 0:
		err = d.link.notConsul()
	case meta.ResultsFilteredByACLs:
		err = d.link.classify(fmt.Errorf("Permission denied: the token may not read all keys below %s", d.cfg.root())) //nolint:staticcheck // as Consul says it
	}
	if err == nil && len(keys) == 0 {
		err = d.mayRead(ctx, d.cfg.root())
	}
	if err != nil {
		return nil, backends.About("list jobs of", d.cfg.prefix, err)
	}
	var jobs []string
	for _, key := range keys {
		if job, ok := d.cfg.jobOf(key); ok {
			jobs = append(jobs, job)
		}
	}
	slices.Sort(jobs)
	return slices.Compact(jobs), nil
}
