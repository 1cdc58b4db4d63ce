package postgres

import (
	"cmp"
	"context"
	"slices"

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
		return backends.Status{}, backends.About("inspect", job, err)
	}
	status := backends.StatusOf(s.bounded().view(d.quarantine(s)), job)
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
	batch := []wire.Statement{d.settings(ctx), {SQL: "SELECT pg_is_in_recovery()"}, {SQL: d.sql.jobs, List: true}}
	reply, err := d.client.Ask(ctx, batch, func(r wire.Reply) error {
		many := func(row wire.Row) bool { return len(row) != 1 }
		if len(r.Rows) != len(batch) || len(r.Rows[1]) != 1 || slices.ContainsFunc(slices.Concat(r.Rows[1:]...), many) {
			return errReply
		}
		if recovery := (fields{row: r.Rows[1][0]}); recovery.bool() { // it may be behind
			return wire.ErrStandby
		}
		return nil
	})
	if hasCode(err, wire.UndefinedTable) { // of which a standby may not have heard
		f, unasked := d.facts(ctx)
		if unasked == nil && !f.table {
			return nil, nil
		}
		err = cmp.Or(unasked, err)
	}
	if err != nil {
		return nil, backends.About("list jobs of", d.cfg.prefix, d.classify(err))
	}
	var jobs []string
	for _, row := range reply.Rows[2] {
		if job, ok := jobOf(row[0].Text); ok {
			jobs = append(jobs, job)
		}
	}
	slices.Sort(jobs)
	return jobs, nil
}
