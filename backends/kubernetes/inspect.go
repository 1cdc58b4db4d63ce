package kubernetes

import (
	"context"
	"errors"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	page     = 100     // Leases are listed with one request: a few hundred kB; fewer where that is more than an answer may have
	restarts = 3       // of a list that took so long that the server has forgotten where it was
	mostList = 8 << 20 // bytes that all names of a list may need
	perName  = 64      // of them, beside the name itself
)

// Inspect implements backends.Inspector: one round trip. Whether a lease has run out it says by the clocks of its
// holder and of this host.
func (d *Driver) Inspect(ctx context.Context, job string) (backends.Status, error) {
	ctx, cancel := d.during(ctx)
	defer cancel()
	s, err := d.read(ctx, job)
	if err != nil {
		return backends.Status{}, backends.About("inspect", job, err)
	}
	if s.lease == nil {
		return backends.Status{}, backends.ErrUnknownJob
	}
	return backends.StatusOf(s.view("", backends.Evidence{}), job), nil
}

// Jobs implements backends.Inspector.
func (d *Driver) Jobs(ctx context.Context) ([]string, error) {
	ctx, cancel := d.during(ctx)
	defer cancel()
	for tries := 1; ; tries++ {
		jobs, err := d.jobs(ctx)
		if tries < restarts && (api.Says(err, api.Expired) || api.Says(err, api.Gone)) {
			continue
		}
		slices.Sort(jobs)
		if err != nil {
			err = backends.About("list jobs of", d.cfg.prefix, d.classify(ctx, err))
		}
		return jobs, err
	}
}

func (d *Driver) jobs(ctx context.Context) (jobs []string, bad error) {
	size, most := 0, page
	for from := ""; ; {
		leases, next, err := d.client.List(ctx, d.cfg.selector(), most, from)
		if errors.Is(err, httplimit.ErrTooLarge) && most > 1 {
			most = max(1, most/4)
			continue
		}
		if err != nil {
			return jobs, err
		}
		for _, l := range leases {
			job, err := d.cfg.jobOf(l)
			size += len(l.Name) + len(job) + perName
			switch {
			case size > mostList:
				return jobs, httplimit.ErrTooLarge
			case err != nil:
				bad = errors.Join(bad, err)
			case job != "":
				jobs = append(jobs, job)
			}
		}
		if from = next; from == "" {
			return jobs, bad
		}
	}
}

// jobOf returns the job of a Lease; "": it is of another prefix.
func (c *config) jobOf(l *api.Lease) (string, error) {
	if l.Annotations[prefixKey] != c.prefix {
		return "", nil
	}
	r, err := backends.ParseRecord([]byte(l.Annotations[recordKey]))
	if err != nil || r.Job == "" {
		return "", backends.Misconfigured(prefixHint, "lease %s in namespace %s holds no record of leaderrun", l.Name, c.namespace)
	}
	return r.Job, nil
}
