package postgres

import (
	"context"
	"slices"

	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// List implements backends.Store.
func (s *store) List(ctx context.Context) ([]string, error) {
	batch := []wire.Statement{s.settings(ctx), {SQL: "SELECT pg_is_in_recovery()"}, {SQL: s.sql.jobs, List: true}}
	reply, err := s.client.Ask(ctx, batch, func(r wire.Reply) error {
		many := func(row wire.Row) bool { return len(row) != 1 }
		if len(r.Rows) != len(batch) || len(r.Rows[1]) != 1 || slices.ContainsFunc(slices.Concat(r.Rows[1:]...), many) {
			return errReply
		}
		if recovery := (fields{row: r.Rows[1][0]}); recovery.bool() { // it may be behind
			return wire.ErrStandby
		}
		return nil
	})
	if hasCode(err, wire.UndefinedTable) {
		return nil, s.tableless(ctx)
	}
	if err != nil {
		return nil, s.classify(err)
	}
	var jobs []string
	for _, row := range reply.Rows[2] {
		if job, ok := jobOf(row[0].Text); ok {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}
