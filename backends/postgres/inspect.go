package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// Inspect implements backends.Inspector, by one statement.
func (d *Driver) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, err := d.read(ctx, job)
	if err == nil && (!s.row || s.holder == "" && s.record.Job == "") {
		err = backends.ErrUnknownJob
	}
	if err != nil {
		return backends.Status{}, about("inspect", job, err)
	}
	view := s.bounded().view(d.quarantine(s))
	status := backends.Status{Record: s.record, Lease: view.Lease, Now: s.now}
	if status.Record.Job == "" {
		status.Record.Job = job
	}
	if status.Lease == nil {
		status.Wait = view.Quarantine
		if r := &s.record; !r.Free() {
			status.Wait = max(status.Wait, min(until(r.Until, s.now), time.Duration(r.TTL)*time.Millisecond))
		}
	}
	status.Notes = d.notes(ctx)
	return status, nil
}

// notes says what the server cannot promise as it is set up. It is not worth failing for.
func (d *Driver) notes(ctx context.Context) []string {
	f, err := d.facts(ctx)
	if err != nil {
		return nil
	}
	var notes []string
	if f.unlogged {
		notes = append(notes, "the table "+d.cfg.prefix+" is UNLOGGED: a crash of the server empties it")
	}
	if f.fsync == "off" {
		notes = append(notes, "fsync is off: a crash of the server's host may take back what was granted")
	}
	if f.standbys > 0 && f.synchronous == 0 {
		notes = append(notes, "no standby is synchronous: after a failover two runs may overlap while the old primary still answers")
	}
	return notes
}

// Jobs implements backends.Inspector.
func (d *Driver) Jobs(ctx context.Context) ([]string, error) {
	reply, err := d.client.Ask(ctx, []wire.Statement{d.settings(ctx), {SQL: d.sql.jobs}}, func(r wire.Reply) error {
		if len(r.Rows) != 2 || slices.ContainsFunc(r.Rows[1], func(row wire.Row) bool { return len(row) != 1 }) {
			return errReply
		}
		return nil
	})
	if hasCode(err, wire.UndefinedTable) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list jobs of %s: %w", d.cfg.prefix, d.classify(err))
	}
	var jobs []string
	for _, row := range reply.Rows[1] {
		if job, ok := jobOf(row[0].Text); ok {
			jobs = append(jobs, job)
		}
	}
	slices.Sort(jobs)
	return jobs, nil
}
