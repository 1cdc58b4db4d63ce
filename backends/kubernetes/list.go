package kubernetes

import (
	"context"
	"errors"

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

// List implements backends.Store.
func (s *store) List(ctx context.Context) ([]string, error) {
	for tries := 1; ; tries++ {
		jobs, err := s.jobs(ctx)
		if tries < restarts && (api.Says(err, api.Expired) || api.Says(err, api.Gone)) {
			continue
		}
		return jobs, s.classify(ctx, err)
	}
}

func (s *store) jobs(ctx context.Context) (jobs []string, bad error) {
	size, most := 0, page
	for from := ""; ; {
		leases, next, err := s.client.List(ctx, s.cfg.selector(), most, from)
		if errors.Is(err, httplimit.ErrTooLarge) && most > 1 {
			most = max(1, most/4)
			continue
		}
		if err != nil {
			return jobs, err
		}
		for _, l := range leases {
			job, err := s.cfg.jobOf(l)
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
func (c *config) jobOf(l api.Listed) (string, error) {
	if l.Annotations[prefixKey] != c.prefix {
		return "", nil
	}
	r, err := backends.ParseRecord([]byte(l.Annotations[recordKey]))
	if err == nil && r.Job == "" {
		err = errors.New("it names no job")
	}
	if err != nil {
		return "", backends.Misconfigured(prefixHint, "lease %s in namespace %s holds no record of leaderrun: %w", l.Name, c.namespace, httplimit.BriefError(err))
	}
	return r.Job, nil
}
