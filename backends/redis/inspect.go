package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// sight is what the store held about a job at one moment.
type sight struct {
	stored     hash // the record as it is kept
	record     backends.Record
	lease      *backends.Lease
	now        time.Time
	wait       time.Duration // how long the next claim must wait although nobody has the lease
	quarantine time.Duration // the part of it that is due to the store itself
	mark       string        // the identity in the mark
	replicas   int           // the highest number ever seen
}

// Inspect implements backends.Inspector, by one script on the master.
func (d *Driver) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, err := d.look(ctx, job)
	if err == nil && len(s.stored) == 0 && s.lease == nil {
		err = backends.ErrUnknownJob
	}
	if err != nil {
		return backends.Status{}, backends.About("inspect", job, err)
	}
	return d.status(s, job), nil
}

func (d *Driver) look(ctx context.Context, job string) (*sight, error) {
	result, err := d.ask(ctx, request{
		script: inspectScript, job: job,
		args: []any{d.cfg.longest.Milliseconds()},
		check: func(r []any) (any, bool, error) {
			s, err := readSight(r, d.cfg.keys(job)[1])
			return s, false, err
		},
	})
	if err != nil {
		return nil, err
	}
	return result.(*sight), nil //nolint:errcheck // readSight returns nothing else
}

// readSight reads the reply of inspect.lua. key is where the record is.
func readSight(reply []any, key string) (*sight, error) {
	if len(reply) != 10 {
		return nil, errReply
	}
	var n [10]int64
	for _, i := range []int{1, 2, 4, 5, 6, 9} {
		var err error
		if n[i], err = intElement(reply, i); err != nil {
			return nil, err
		}
	}
	flat, ok := reply[7].([]any)
	if !ok || len(flat)%2 != 0 {
		return nil, errReply
	}
	s := &sight{
		stored: hash{}, now: time.UnixMilli(n[2]), mark: element(reply, 8), replicas: int(n[1]),
		wait: time.Duration(n[6]) * time.Millisecond, quarantine: time.Duration(n[9]) * time.Millisecond,
	}
	for i := 0; i < len(flat); i += 2 {
		field := element(flat, i)
		s.stored[field] = element(flat, i+1)
	}
	if holder := element(reply, 3); holder != "" {
		s.lease = &backends.Lease{Holder: holder, Token: n[4], Left: time.Duration(n[5]) * time.Millisecond}
	}
	var err error
	if s.record, err = s.stored.record(); err != nil {
		return nil, broken(key + ": " + err.Error())
	}
	return s, nil
}

func (d *Driver) status(s *sight, job string) backends.Status {
	status := backends.Status{Record: s.record, Lease: s.lease, Now: s.now, Wait: s.wait}
	if status.Record.Job == "" {
		status.Record.Job = job
	}
	safe := *d.cfg
	safe.replicas = -1
	if should, must := safe.required(s.replicas), d.cfg.required(s.replicas); must < should {
		status.Notes = append(status.Notes, fmt.Sprintf(
			"only %d of %d replicas must acknowledge a step (?replicas=%d): after a failover two runs may overlap",
			must, should, d.cfg.replicas))
	}
	return status
}

// Jobs implements backends.Inspector. It looks through all keys of the database, a thousand at a time.
func (d *Driver) Jobs(ctx context.Context) ([]string, error) {
	ctx, cancel := backends.During(ctx, d.life)
	defer cancel()
	l, err := d.use()
	if err != nil {
		return nil, err
	}
	type outcome struct {
		jobs []string
		err  error
	}
	done := make(chan outcome, 1)
	panics.Go(func() {
		defer l.release()
		jobs, err := d.scan(ctx, l)
		done <- outcome{jobs, err}
	})
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		o.err = context.Cause(ctx)
	}
	if o.err != nil {
		d.drop(l)
		return nil, backends.About("list jobs of", d.cfg.prefix, o.err)
	}
	return o.jobs, nil
}

// maxNames is how many bytes the keys of all jobs may have: a server may say for ever that there are more.
const maxNames = 8 << 20

func (d *Driver) scan(ctx context.Context, l *link) ([]string, error) {
	clients, err := l.all(ctx)
	if err != nil {
		return nil, classify(d.cfg, err)
	}
	pattern := globEscape(escape(d.cfg.prefix)) + ":{*}:record"
	var jobs []string
	names := 0
	for _, c := range clients {
		for cursor := uint64(0); ; {
			var keys []string
			keys, cursor, err = c.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return nil, classify(d.cfg, err)
			}
			for _, key := range keys {
				if job, ok := d.cfg.jobOf(key); ok {
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
	slices.Sort(jobs)
	return slices.Compact(jobs), nil
}

// maxMasters is how many masters are asked for their jobs. The Cluster's specification recommends no more nodes.
const maxMasters = 1000

// all returns the clients of all masters.
func (l *link) all(ctx context.Context) ([]*goredis.Client, error) {
	first, err := l.client(ctx, "{}")
	if err != nil || l.cfg.Kind != redisurl.Cluster {
		return []*goredis.Client{first}, err
	}
	l.mu.Lock()
	ranges := slices.Clone(l.slots)
	l.mu.Unlock()
	masters := map[string]bool{}
	for _, r := range ranges {
		masters[r.addr] = true
	}
	if len(masters) > maxMasters {
		return nil, fmt.Errorf("the Cluster names %d masters: %d at most are asked", len(masters), maxMasters)
	}
	clients := []*goredis.Client{first}
	for addr := range masters {
		if c := l.at(addr); c != first {
			clients = append(clients, c)
		}
	}
	return clients, nil
}

// globEscape makes a text stand for itself in the pattern of SCAN.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
