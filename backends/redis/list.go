package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// List implements backends.Store. It looks through all keys of the database, a thousand at a time.
func (s *store) List(ctx context.Context) ([]string, error) {
	p, err := s.use()
	if err != nil {
		return nil, err
	}
	jobs, err := panics.Await(ctx, func() ([]string, error) {
		defer p.release()
		return s.scan(ctx, p)
	})
	if err != nil && ctx.Err() != nil {
		err = s.unanswered(err)
	}
	if err != nil {
		s.drop(p)
	}
	return jobs, err
}

// maxNames is how many bytes the keys of all jobs may have: a server may say for ever that there are more.
const maxNames = 8 << 20

func (s *store) scan(ctx context.Context, p *connPool) ([]string, error) {
	clients, err := p.all(ctx)
	if err != nil {
		return nil, classify(s.cfg, err)
	}
	pattern := globEscape(escape(s.cfg.prefix)) + ":{*}:record"
	var jobs []string
	names := 0
	for _, c := range clients {
		for cursor := uint64(0); ; {
			var keys []string
			keys, cursor, err = c.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return nil, classify(s.cfg, err)
			}
			for _, key := range keys {
				if job, ok := s.cfg.jobOf(key); ok {
					jobs = append(jobs, job)
					names += len(key)
				}
			}
			if names > maxNames {
				return nil, fmt.Errorf("the keys of the jobs are more than %d bytes", maxNames)
			}
			if cursor == 0 {
				break
			}
		}
	}
	return jobs, nil
}

// maxMasters is how many masters are asked for their jobs. The Cluster's specification recommends no more nodes.
const maxMasters = 1000

// all returns the clients of all masters.
func (p *connPool) all(ctx context.Context) ([]*goredis.Client, error) {
	first, err := p.client(ctx, "{}")
	if err != nil || p.cfg.Kind != redisurl.Cluster {
		return []*goredis.Client{first}, err
	}
	p.mu.Lock()
	ranges := slices.Clone(p.slots)
	p.mu.Unlock()
	masters := map[string]bool{}
	for _, r := range ranges {
		masters[r.addr] = true
	}
	if len(masters) > maxMasters {
		return nil, fmt.Errorf("the Cluster names %d masters: %d at most are asked", len(masters), maxMasters)
	}
	clients := []*goredis.Client{first}
	for addr := range masters {
		if c := p.at(addr); c != first {
			clients = append(clients, c)
		}
	}
	return clients, nil
}

// globEscape makes a text stand for itself in the pattern of SCAN.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
