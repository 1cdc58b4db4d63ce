package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
	"unicode/utf16"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// Swap implements backends.Tx, by one statement that finds row and server as they were read, and for a claim the mark.
//
// The lease of a claim lasts from the time at which the row was read. Whatever the statement waits for, and however late it
// arrives, it grants nothing for longer than its sender believes, and nothing at all if anything has changed since. That of a
// renewal lasts from the time of the write: it must be valid then.
func (t *tx) Swap(ctx context.Context, was backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	s := of(was)
	next := *s
	next.row, next.written, next.version, next.record = true, true, newVersion(), w.Record
	switch {
	case w.Lease != nil:
		next.holder, next.token = w.Lease.Holder, w.Lease.Token
	case w.Release:
		next.holder, next.token = "", 0
	}
	done, err := t.write(ctx, t.jobRow(s, &next, w), func(f *fields) {
		next.xmin, next.record.Until = f.text(), f.int()
		next.server.now, next.server.at = time.UnixMilli(f.int()), time.Now()
		next.server.waits = f.bool()
		f.next()
	})
	if !done {
		return nil, false, err
	}
	return &next, true, nil
}

// write carries out a statement that writes one row, and says whether it did. kept reads what the row is then, after its key.
func (s *store) write(ctx context.Context, row wire.Statement, kept func(*fields)) (done bool, err error) {
	_, err = s.client.Ask(ctx, []wire.Statement{s.settings(ctx), row}, func(r wire.Reply) error {
		if len(r.Rows) != 2 || len(r.Rows[1]) > 1 {
			return errReply
		}
		if done = len(r.Rows[1]) == 1; done {
			f := fields{row: r.Rows[1][0]}
			key := f.text()
			if kept(&f); f.wrong || len(f.row) > 0 || key != row.Args[theKey].Text {
				return errReply
			}
		}
		return replicated(r)
	})
	if hasCode(err, wire.SerializationFailure, wire.Deadlock, wire.UndefinedTable) { // it was rolled back
		return false, nil
	}
	return done && err == nil, s.classify(err)
}

// newVersion is a number that no row had before. It is drawn and not counted: a counter of a store that was rolled back
// comes by the same numbers again.
func newVersion() int64 { return 1 + rand.Int64N(1<<62) } //nolint:gosec // it need not be secret

// jobRow is the statement that turns a row from what it is into what it is to be.
func (t *tx) jobRow(s, next *state, w backends.Write) wire.Statement {
	args, sql := writes(keyOf(t.q.Job), next.version, w.Record.Beat, &s.server), t.sql.insert
	if s.row {
		sql = t.sql.update
		args[wasVersion], args[wasXmin] = number(s.version), wire.Text(s.xmin)
	}
	renews := t.q.Op == backends.ToRenew
	if !renews || !backends.SameButBeat(s.record, w.Record) {
		args[toRecord] = wire.Text(ascii(w.Record))
	}
	if next.holder != "" {
		args[toHolder], args[toToken] = wire.Text(next.holder), number(next.token)
	}
	switch {
	case renews:
		args[lasts], args[ifValid] = number(w.TTL.Milliseconds()), wire.Text("t")
	case !s.row || w.Record.Until != s.record.Until: // else it stays as it is, to the microsecond
		args[toUntil] = number(w.Record.Until)
	}
	switch {
	case t.q.Op == backends.ToClaim:
		args[underMark] = number(s.server.markVersion)
	case !renews: // somebody may wait for this
		args[onChannel] = wire.Text(t.sql.channel)
	}
	return wire.Statement{SQL: sql, Args: args, Cancel: s.server.waits}
}

// ascii makes JSON that is ASCII: a database may have an encoding that has not every letter.
func ascii(v any) string {
	var b []byte
	for _, r := range string(backends.Marshal(v)) {
		if r < 0x80 {
			b = append(b, byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return string(b)
}
