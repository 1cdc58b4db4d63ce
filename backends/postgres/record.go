package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// state is what the row of a job holds, and what its server says of itself, read in one step. It is not changed.
type state struct {
	server  server
	missing bool // the table does not exist
	written bool // it is what a write of ours has left, which may be long ago

	record  backends.Record // zero: there is none
	row     bool            // there is a row
	version int64           // its version
	xmin    string          // its xmin

	holder string // of the lease; "": nobody's
	token  int64
}

// read reads job and mark in one step, from a server that is not in recovery.
func (d *Driver) read(ctx context.Context, job string) (*state, error) {
	var s *state
	_, err := d.client.Ask(ctx, d.reading(ctx, job), func(r wire.Reply) (err error) {
		s, err = d.state(job, r)
		return err
	})
	if hasCode(err, wire.UndefinedTable) {
		return &state{missing: true, server: server{now: time.Now(), at: time.Now()}}, nil
	}
	if err != nil {
		return nil, d.unread(job, err)
	}
	d.spoken.Store(true)
	return s, nil
}

// unread classifies why a row could not be read: one with a value that the server itself cannot turn into what it is asked
// for will not be readable the next time either.
func (d *Driver) unread(job string, err error) error {
	e, ok := errors.AsType[*wire.Error](err)
	if ok && e.Refused() && strings.HasPrefix(e.Code, wire.DataClass) {
		return d.damaged(job, err)
	}
	return d.classify(err)
}

// damaged says that the row of a job is none of leaderrun's, and why.
func (d *Driver) damaged(job string, why error) error {
	return backends.Misconfigured(damagedHint, "the table %s has a row of the job %q that leaderrun cannot read: %w", d.cfg.prefix, job, why)
}

// fields reads the columns of a row one by one, and remembers if one is not what it should be.
type fields struct {
	row   wire.Row
	wrong bool
}

func (f *fields) next() wire.Value {
	if len(f.row) == 0 {
		f.wrong = true
		return wire.Value{}
	}
	v := f.row[0]
	f.row = f.row[1:]
	return v
}

func (f *fields) text() string { return f.next().Text }

// int reads a number; NULL is 0.
func (f *fields) int() int64 {
	v := f.next()
	if !v.Valid {
		return 0
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	f.wrong = f.wrong || err != nil
	return n
}

func (f *fields) bool() bool { return f.text() == "t" }

// reading is the batch that state reads the reply of.
func (d *Driver) reading(ctx context.Context, job string) []wire.Statement {
	return []wire.Statement{d.settings(ctx), {SQL: d.sql.read, Args: []wire.Value{wire.Text(keyOf(job))}}}
}

func (d *Driver) state(job string, reply wire.Reply) (*state, error) {
	if len(reply.Rows) != 2 || len(reply.Rows[1]) != 1 {
		return nil, errReply
	}
	f := fields{row: reply.Rows[1][0]}
	s := new(state)
	echo, recovery := f.text(), f.bool()
	s.server.identity, s.server.now, s.server.at = f.text(), time.UnixMilli(f.int()), time.Now()
	s.server.waits = f.bool()
	version, xmin, record := f.next(), f.next(), f.next()
	holder, token, until, beat := f.next(), f.next(), f.next(), f.next()
	markVersion, markXmin, mark := f.next(), f.next(), f.text()
	s.server.used = f.bool()
	if f.wrong || len(f.row) > 0 || echo != keyOf(job) {
		return nil, errReply
	}
	if recovery {
		return nil, wire.ErrStandby
	}
	if _, known := originOf(s.server.identity); !known {
		return nil, errReply
	}
	var err error
	if s.server.markXmin = markXmin.Text; markXmin.Valid {
		if s.server.markVersion, err = whole("version", markVersion); err != nil {
			return nil, backends.Misconfigured("DELETE FROM "+d.cfg.table+" WHERE job = '', after which nobody starts for a while", "the table %s has a mark that leaderrun cannot read: %w", d.cfg.prefix, err)
		}
		s.server.mark = readMark(mark)
		s.server.used = true
	}
	if s.row, s.xmin = xmin.Valid, xmin.Text; !s.row {
		return s, nil
	}
	if record.Valid {
		if s.record, err = backends.ParseRecord([]byte(record.Text)); err != nil {
			return nil, d.damaged(job, err)
		}
	}
	var errs [4]error
	s.version, errs[0] = whole("version", version)
	s.token, errs[1] = orZero("token", token)
	s.record.Until, errs[2] = orZero("until", until)
	s.record.Beat, errs[3] = orZero("beat", beat)
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, d.damaged(job, err)
	}
	if s.holder = holder.Text; holder.Valid && (s.holder == "" || s.token <= 0) {
		return nil, backends.Misconfigured("who is sure that nobody runs the job sets holder to NULL", "the table %s has a lease of the job %q that says nothing of who runs it", d.cfg.prefix, job)
	}
	return s, nil
}

// whole reads a column that is a number. Only who changed the row, or the table, by hand has made it something else.
func whole(column string, v wire.Value) (int64, error) {
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if !v.Valid || err != nil {
		return 0, errors.New("its " + column + " is no number")
	}
	return n, nil
}

// orZero is whole where NULL is 0.
func orZero(column string, v wire.Value) (int64, error) {
	if !v.Valid {
		return 0, nil
	}
	return whole(column, v)
}

// write makes JSON that is ASCII: a database may have an encoding that has not every letter.
func write(v any) string {
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

// view is what a decision is taken on. What is known from a write of ours only its holder goes by: then the lease is valid
// if the server says so in the step that renews it, and the server's clock has gone on as ours has.
func (s *state) view(quarantine time.Duration) backends.View {
	v := backends.View{Record: s.record, Now: s.server.now, Proof: backends.ByUntil, Quarantine: quarantine}
	if s.written {
		v.Now = v.Now.Add(time.Since(s.server.at))
	}
	if left := until(s.record.Until, v.Now); s.holder != "" && (left > 0 || s.written) {
		v.Lease = &backends.Lease{Holder: s.holder, Token: s.token, Left: left}
	}
	return v
}

// bounded returns what is there with a lease that lasts for no longer than its TTL from now: if it says more, the server's
// clock went back.
func (s *state) bounded() *state {
	bound := s.server.now.UnixMilli() + s.record.TTL
	if s.holder == "" || s.record.TTL == 0 || s.record.Until <= bound {
		return s
	}
	b := *s
	b.record.Until = bound
	return &b
}

// change is what a step writes.
type change struct {
	record backends.Record
	holder string // of the lease from now on; "": nobody's
	token  int64

	renew time.Duration  // the lease must be valid, and is extended by so much from now, by the server's clock
	claim bool           // the mark must be as it was read, or as mark says
	mark  *backends.Mark // is written too; nil: it stays
	tell  bool           // somebody may wait for this
}

// keep is a change of the record that leaves the lease as it is.
func (s *state) keep(r backends.Record) change {
	return change{record: r, holder: s.holder, token: s.token}
}

// release is a change of the record that takes the lease away, if it is told to.
func (s *state) release(r backends.Record, release bool) change {
	c := s.keep(r)
	c.tell = true
	if release {
		c.holder, c.token = "", 0
	}
	return c
}

// swap makes a change if everything is still as it was read, and returns what the row is then. If it is not, it changes
// nothing, and returns what is there now: done is false. A table that is missing is made.
func (d *Driver) swap(ctx context.Context, job string, s *state, c change) (next *state, done bool, err error) {
	if s.missing {
		if err := d.createTable(ctx); err != nil {
			return nil, false, err
		}
		next, err := d.read(ctx, job)
		if err == nil && next.missing {
			err = backends.Misconfigured(prefixHint, "there is no table %s, although it was created", d.cfg.prefix)
		}
		return next, false, err
	}
	batch := []wire.Statement{d.settings(ctx)}
	after := *s
	if c.mark != nil {
		after.server.markVersion = newVersion()
		batch = append(batch, d.markRow(s, *c.mark, after.server.markVersion))
	}
	after.row, after.written, after.version = true, true, newVersion()
	after.holder, after.token, after.record = c.holder, c.token, c.record
	batch = append(batch, d.jobRow(job, s, &after, c))
	_, err = d.client.Ask(ctx, batch, func(r wire.Reply) error {
		if len(r.Rows) != len(batch) {
			return errReply
		}
		rows := r.Rows[len(batch)-1]
		if done = len(rows) == 1; done {
			f := fields{row: rows[0]}
			if f.text() != keyOf(job) {
				return errReply
			}
			after.xmin, after.record.Until = f.text(), f.int()
			after.server.now, after.server.at = time.UnixMilli(f.int()), time.Now()
			after.server.waits = f.bool()
			if f.next(); f.wrong || len(f.row) > 0 {
				return errReply
			}
		}
		return replicated(r)
	})
	switch {
	case hasCode(err, wire.SerializationFailure, wire.Deadlock, wire.UndefinedTable): // it was rolled back
	case err != nil:
		return nil, false, d.classify(err)
	case done:
		return &after, true, nil
	}
	next, err = d.read(ctx, job)
	return next, false, err
}

// newVersion is a number that no row had before. It is drawn and not counted: a counter of a store that was rolled back
// comes by the same numbers again.
func newVersion() int64 { return 1 + rand.Int64N(1<<62) } //nolint:gosec // it need not be secret

func (d *Driver) markRow(s *state, m backends.Mark, version int64) wire.Statement {
	mark := wire.Text(write(m))
	var none wire.Value
	args := []wire.Value{
		wire.Text(markKey), number(version), mark, none, none, none, none, number(0), none, none, wire.Text(s.server.identity), none, wire.Text("f"), none,
	}
	sql := d.sql.insert
	if s.server.markXmin != "" {
		sql = d.sql.update
		args[8], args[9] = number(s.server.markVersion), wire.Text(s.server.markXmin)
	}
	return wire.Statement{SQL: sql, Args: args, Cancel: s.server.waits}
}

// jobRow is the statement that turns a row from what it is into what it is to be.
func (d *Driver) jobRow(job string, s, after *state, c change) wire.Statement {
	var none wire.Value
	args := []wire.Value{
		wire.Text(keyOf(job)), number(after.version), none, none, none, none, none, number(c.record.Beat), none, none,
		wire.Text(s.server.identity), none, wire.Text("f"), none,
	}
	sql := d.sql.insert
	if s.row {
		sql = d.sql.update
		args[8], args[9] = number(s.version), wire.Text(s.xmin)
	}
	if !s.row || !backends.SameButBeat(s.record, c.record) || c.renew == 0 {
		args[2] = wire.Text(write(c.record))
	}
	if c.holder != "" {
		args[3], args[4] = wire.Text(c.holder), number(c.token)
	}
	switch {
	case c.renew > 0:
		args[6], args[12] = number(c.renew.Milliseconds()), wire.Text("t")
	case !s.row || c.record.Until != s.record.Until: // else it stays as it is, to the microsecond
		args[5] = number(c.record.Until)
	}
	if c.claim {
		args[11] = number(after.server.markVersion)
	}
	if c.tell {
		args[13] = wire.Text(d.sql.channel)
	}
	return wire.Statement{SQL: sql, Args: args, Cancel: s.server.waits}
}
