package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
)

// Inspect implements backends.Inspector, by one script on the master.
func (d *Driver) Inspect(ctx context.Context, job string) (backends.Status, error) {
	result, err := d.ask(ctx, request{
		script: inspectScript, job: job,
		args:  []any{d.cfg.longest.Milliseconds()},
		check: func(r []any) (any, bool, error) { return d.status(r, job) },
	})
	if err != nil {
		return backends.Status{}, about("inspect", job, err)
	}
	return result.(backends.Status), nil //nolint:errcheck // status returns nothing else
}

// status reads the reply of inspect.lua.
func (d *Driver) status(reply []any, job string) (any, bool, error) {
	var s backends.Status
	if len(reply) != 8 {
		return s, false, errReply
	}
	var n [8]int64
	for _, i := range []int{1, 2, 4, 5, 6} {
		var err error
		if n[i], err = intElement(reply, i); err != nil {
			return s, false, err
		}
	}
	flat, ok := reply[7].([]any)
	if !ok || len(flat)%2 != 0 {
		return s, false, errReply
	}
	h := hash{}
	for i := 0; i < len(flat); i += 2 {
		field := element(flat, i)
		h[field] = element(flat, i+1)
	}
	holder := element(reply, 3)
	if len(h) == 0 && holder == "" {
		return s, false, backends.ErrUnknownJob
	}
	record, err := h.record()
	if err != nil {
		return s, false, err
	}
	s = backends.Status{Record: record, Now: time.UnixMilli(n[2]), Wait: time.Duration(n[6]) * time.Millisecond}
	if s.Record.Job == "" {
		s.Record.Job = job
	}
	if holder != "" {
		s.Lease = &backends.Lease{Holder: holder, Token: n[4], Left: time.Duration(n[5]) * time.Millisecond}
	}
	safe := *d.cfg
	safe.replicas = -1
	if should := safe.required(int(n[1])); d.cfg.required(int(n[1])) < should {
		s.Notes = append(s.Notes, fmt.Sprintf(
			"only %d of %d replicas must acknowledge a step (?replicas=%d): after a failover two runs may overlap",
			d.cfg.required(int(n[1])), should, d.cfg.replicas))
	}
	return s, true, nil
}

// Jobs implements backends.Inspector. It looks through all keys of the database, a thousand at a time.
func (d *Driver) Jobs(ctx context.Context) ([]string, error) {
	l, err := d.use()
	if err != nil {
		return nil, err
	}
	type outcome struct {
		jobs []string
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		defer l.release()
		jobs, err := d.scan(ctx, l)
		done <- outcome{jobs, err}
	}()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		o.err = context.Cause(ctx)
	}
	if o.err != nil {
		d.drop(l)
		return nil, fmt.Errorf("list jobs: %w", o.err)
	}
	return o.jobs, nil
}

func (d *Driver) scan(ctx context.Context, l *link) ([]string, error) {
	clients, err := l.all(ctx)
	if err != nil {
		return nil, classify(d.cfg, err)
	}
	pattern := globEscape(escape(d.cfg.prefix)) + ":{*}:record"
	var jobs []string
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
				}
			}
			if cursor == 0 {
				break
			}
		}
	}
	slices.Sort(jobs)
	return slices.Compact(jobs), nil
}

// all returns the clients of all masters.
func (l *link) all(ctx context.Context) ([]*goredis.Client, error) {
	first, err := l.client(ctx, "{}")
	if err != nil || l.cfg.kind != cluster {
		return []*goredis.Client{first}, err
	}
	l.mu.Lock()
	ranges := slices.Clone(l.slots)
	l.mu.Unlock()
	clients := []*goredis.Client{first}
	for _, r := range ranges {
		if c := l.at(r.addr); !slices.Contains(clients, c) {
			clients = append(clients, c)
		}
	}
	return clients, nil
}

// globEscape makes a text stand for itself in the pattern of SCAN.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
