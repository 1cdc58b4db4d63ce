package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// server is what a server says of itself, and of the mark, at the moment of a step.
type server struct {
	identity string // CLUSTER:TIMELINE:START, see the statement of that name
	now      time.Time
	at       time.Time // by our clock, when we heard of it
	waits    bool      // a commit waits for standbys, as long as it takes

	mark        backends.Mark
	markVersion int64  // of its row; 0: there is none
	markXmin    string // of the same
	used        bool   // where there is no mark: the table has jobs all the same, or is one that a crash empties
}

// admit compares the mark with the server. It returns the mark to keep and for how long nobody may be granted.
//
// A server of another cluster or timeline than the mark's was restored from a backup, or promoted, and may have been behind:
// what it forgot was granted before it was first seen, so a quarantine begins there. One that was started again may have
// been set back to a snapshot of its disk, or have lost what a crash took: what it forgot was granted before its start, so
// a quarantine begins there, and may be over. Where there is no mark the table is new, and nobody can have been granted
// anything in it; but a server that is newer than a lease may stand in the place of one that was lost, and one that was
// promoted may have lost the table.
func (s *server) admit(longest time.Duration) (backends.Mark, time.Duration) {
	is, known := originOf(s.identity)
	forgot := !known || is.timeline != 1
	if s.mark.Identity != "" {
		was, sane := originOf(s.mark.Identity)
		forgot = !known || !sane || is.cluster != was.cluster || is.timeline != was.timeline
	}
	return s.mark.Admit(backends.Server{
		Identity: s.identity, Started: max(is.started, is.made()), Forgot: forgot,
	}, longest, s.now.UnixMilli(), s.used)
}

// origin is what an identity says: which cluster the server has, in which of its histories it writes, and when it was
// started, in milliseconds.
type origin struct {
	cluster  uint64
	timeline int64
	started  int64
}

func originOf(identity string) (o origin, known bool) {
	parts := strings.Split(identity, ":")
	if len(parts) != 3 {
		return origin{}, false
	}
	var errs [3]error
	o.cluster, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	o.timeline, errs[1] = strconv.ParseInt(parts[1], 16, 64)
	o.started, errs[2] = strconv.ParseInt(parts[2], 10, 64)
	o.started /= 1000
	return o, errors.Join(errs[:]...) == nil
}

// made returns when initdb made the cluster, which the first half of its number says in whole seconds (in xlog.c,
// BootStrapXLOG), in milliseconds.
func (o origin) made() int64 {
	return (int64(o.cluster>>32) + 1) * 1000 //nolint:gosec // 32 bits
}

// readMark reads a mark. One that makes no sense is none, of a server that we do not know.
func readMark(text string) backends.Mark {
	var m backends.Mark
	if json.Unmarshal([]byte(text), &m) != nil || m.Identity == "" {
		return backends.Mark{Identity: "unknown"}
	}
	return m
}

// admit makes sure that the mark of what a claim has read is this server's, and that a lease that lasts for longer than its
// TTL does not: a claim is decided on both. It writes what is not so. If somebody else has written meanwhile it says no.
func (t *tx) admit(ctx context.Context, now *state) (ready bool, err error) {
	if mark, _ := now.server.admit(t.cfg.longest); mark != now.server.mark {
		version := newVersion()
		done, err := t.write(ctx, t.markRow(now, mark, version), func(f *fields) { f.row = nil })
		if err != nil || !done {
			return false, err
		}
		now.server.mark, now.server.markVersion = mark, version
	}
	if until := now.bound(); until != now.record.Until {
		shorter := now.record
		shorter.Until = until
		_, _, err := t.Swap(ctx, now, backends.Write{Record: shorter})
		return false, err
	}
	return true, nil
}

// markRow is the statement that writes the mark.
func (t *tx) markRow(s *state, m backends.Mark, version int64) wire.Statement {
	args, sql := writes(markKey, version, 0, &s.server), t.sql.insert
	args[toRecord] = wire.Text(ascii(m))
	if s.server.markXmin != "" {
		sql = t.sql.update
		args[wasVersion], args[wasXmin] = number(s.server.markVersion), wire.Text(s.server.markXmin)
	}
	return wire.Statement{SQL: sql, Args: args, Cancel: s.server.waits}
}
