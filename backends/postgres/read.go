package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// state is what the row of a job holds, and what its server says of itself, read in one step. It is not changed.
type state struct {
	server     server
	missing    bool          // the table does not exist
	written    bool          // it is what a write of ours has left, which may be long ago
	quarantine time.Duration // for how long nobody may be granted; who only looks writes no mark, and it may begin later
	notes      []string      // for people

	record  backends.Record // zero: there is none
	row     bool            // there is a row
	version int64           // its version
	xmin    string          // its xmin

	holder string // of the lease; "": nobody's
	token  int64
}

// of returns what a snapshot of this store is.
func of(now backends.Snapshot) *state {
	s, _ := now.(*state)
	return s
}

// Read implements backends.Tx: one round trip. What a claim relies on is made so before it is decided: the table is there, the
// mark is that of this server, and no lease lasts for longer than its TTL from now. That costs the first claim of all, and
// the first one after a start of the server.
func (t *tx) Read(ctx context.Context) (backends.Snapshot, error) {
	if t.q.Op == backends.ToClaim && t.q.TTL > t.cfg.longest {
		return nil, backends.Misconfigured(longestHint, "a TTL of %v is longer than this store allows (%v)", t.q.TTL, t.cfg.longest)
	}
	for conflicts := 0; ; conflicts++ {
		if conflicts > 1 { // a trigger, a rule or somebody's hand is in the way, and may stay
			if err := backends.Pause(ctx, conflicts); err != nil {
				return nil, fmt.Errorf("what a claim relies on cannot be written into the table %s: %w", t.cfg.prefix, err)
			}
		}
		now, err := t.read(ctx, t.q.Job)
		if err == nil && now.missing {
			now, err = t.withoutTable(ctx)
		}
		if err != nil {
			return nil, err
		}
		ready := true
		switch t.q.Op {
		case backends.ToClaim:
			ready, err = t.admit(ctx, now)
		case backends.ToInspect:
			now.record.Until = now.bound()
			if now.row && !t.q.Brief {
				now.notes = t.notes(ctx)
			}
		}
		if ready || err != nil {
			return now, err
		}
	}
}

// withoutTable makes the table for what is written in any case, and reads from it. For others there is nothing, if that is so.
func (t *tx) withoutTable(ctx context.Context) (*state, error) {
	if t.q.Op != backends.ToClaim && t.q.Op != backends.ToAbandon {
		return &state{missing: true, server: server{now: time.Now()}}, t.tableless(ctx)
	}
	if err := t.createTable(ctx); err != nil {
		return nil, err
	}
	now, err := t.read(ctx, t.q.Job)
	if err == nil && now.missing {
		err = backends.Misconfigured(prefixHint, "there is no table %s, although it was created", t.cfg.prefix)
	}
	return now, err
}

// read reads job and mark in one step, from a server that is not in recovery.
func (s *store) read(ctx context.Context, job string) (*state, error) {
	var now *state
	_, err := s.client.Ask(ctx, s.reading(ctx, job), func(r wire.Reply) (err error) {
		now, err = s.state(job, r)
		return err
	})
	if hasCode(err, wire.UndefinedTable) {
		return &state{missing: true}, nil
	}
	if err != nil {
		return nil, s.unread(job, err)
	}
	s.spoken.Store(true)
	return now, nil
}

// unread classifies why a row could not be read: one with a value that the server itself cannot turn into what it is asked
// for will not be readable the next time either.
func (s *store) unread(job string, err error) error {
	e, ok := errors.AsType[*wire.Error](err)
	if ok && e.Refused() && strings.HasPrefix(e.Code, wire.DataClass) {
		return s.damaged(job, err)
	}
	return s.classify(err)
}

// damaged says that the row of a job is none of leaderrun's, and why.
func (s *store) damaged(job string, why error) error {
	return backends.Misconfigured(damagedHint, "the table %s has a row of the job %q that leaderrun cannot read: %w", s.cfg.prefix, job, why)
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
func (s *store) reading(ctx context.Context, job string) []wire.Statement {
	return []wire.Statement{s.settings(ctx), {SQL: s.sql.read, Args: []wire.Value{wire.Text(keyOf(job))}}}
}

func (s *store) state(job string, reply wire.Reply) (*state, error) {
	if len(reply.Rows) != 2 || len(reply.Rows[1]) != 1 {
		return nil, errReply
	}
	f := fields{row: reply.Rows[1][0]}
	now := new(state)
	echo, recovery := f.text(), f.bool()
	now.server.identity, now.server.now, now.server.at = f.text(), time.UnixMilli(f.int()), time.Now()
	now.server.waits = f.bool()
	version, xmin, record := f.next(), f.next(), f.next()
	holder, token, until, beat := f.next(), f.next(), f.next(), f.next()
	markVersion, markXmin, mark := f.next(), f.next(), f.text()
	now.server.used = f.bool()
	if f.wrong || len(f.row) > 0 || echo != keyOf(job) {
		return nil, errReply
	}
	if recovery {
		return nil, wire.ErrStandby
	}
	if _, known := originOf(now.server.identity); !known {
		return nil, errReply
	}
	var err error
	if now.server.markXmin = markXmin.Text; markXmin.Valid {
		if now.server.markVersion, err = whole("version", markVersion); err != nil {
			return nil, backends.Misconfigured("DELETE FROM "+s.cfg.table+" WHERE job = '', after which nobody starts for a while", "the table %s has a mark that leaderrun cannot read: %w", s.cfg.prefix, err)
		}
		now.server.mark = readMark(mark)
		now.server.used = true
	}
	_, now.quarantine = now.server.admit(s.cfg.longest)
	if now.row, now.xmin = xmin.Valid, xmin.Text; !now.row {
		return now, nil
	}
	if record.Valid {
		if now.record, err = backends.ParseRecord([]byte(record.Text)); err != nil {
			return nil, s.damaged(job, err)
		}
	}
	var errs [4]error
	now.version, errs[0] = whole("version", version)
	now.token, errs[1] = orZero("token", token)
	now.record.Until, errs[2] = orZero("until", until)
	now.record.Beat, errs[3] = orZero("beat", beat)
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, s.damaged(job, err)
	}
	if now.holder = holder.Text; holder.Valid && (now.holder == "" || now.token <= 0) {
		return nil, backends.Misconfigured("who is sure that nobody runs the job sets holder to NULL", "the table %s has a lease of the job %q that says nothing of who runs it", s.cfg.prefix, job)
	}
	return now, nil
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

// View implements backends.Snapshot. If the snapshot was left by a write of ours, only its holder uses it. Then the lease counts as valid,
// because the step that renews it asks the server, and the server's clock is taken to have gone on as ours has.
func (s *state) View(backends.Request) backends.View {
	v := backends.View{Record: s.record, Now: s.server.now, Proof: backends.ByUntil, Quarantine: s.quarantine, Notes: s.notes}
	if s.written {
		v.Now = v.Now.Add(time.Since(s.server.at))
	}
	left := max(time.Duration(s.record.Until-v.Now.UnixMilli())*time.Millisecond, 0)
	if s.holder != "" && (left > 0 || s.written) {
		v.Lease = &backends.Lease{Holder: s.holder, Token: s.token, Left: left}
	}
	return v
}

// bound returns until when the lease lasts: for no longer than its TTL from now. If it says more, the server's clock went back.
func (s *state) bound() int64 {
	if s.holder == "" || s.record.TTL == 0 {
		return s.record.Until
	}
	return min(s.record.Until, s.server.now.UnixMilli()+s.record.TTL)
}

// Newer implements backends.Snapshot.
func (s *state) Newer(than backends.Snapshot) bool { return s.record.Beat > of(than).record.Beat }

// Complete implements backends.Snapshot.
func (*state) Complete(*backends.Grant) {}
