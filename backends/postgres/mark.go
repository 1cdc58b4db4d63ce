package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// server is what a server says of itself, and of the mark, at the moment of a step.
type server struct {
	identity string
	now      time.Time
	mark     backends.Mark
	version  int64  // of the row with the mark; 0: there is none
	xmin     string // of the same
	used     bool   // where there is no mark: the table has jobs all the same, or is one that a crash empties
}

// admit compares the mark with the server. It returns the mark to keep and for how long nobody may be granted.
//
// A server with another identity than the mark's was restored from a backup, or promoted, and may have been behind: what it
// forgot was granted before it was first seen, so a quarantine begins there. Where there is no mark the table is new, and
// nobody can have been granted anything in it; but a cluster that is newer than a lease may stand in the place of one
// that was lost, and one that was promoted may have lost the table.
func (s *server) admit(longest time.Duration) (backends.Mark, time.Duration) {
	made, timeline := s.born()
	now := s.now.UnixMilli()
	return s.mark.Admit(backends.Server{
		Identity: s.identity, Started: made.UnixMilli(), Forgot: s.mark.Identity != "" || timeline != 1,
	}, longest, now, s.used)
}

// born returns when initdb made the cluster, which the first half of its number says (in xlog.c, BootStrapXLOG), and its
// timeline. What cannot be read was made just now.
func (s *server) born() (made time.Time, timeline int64) {
	number, line, _ := strings.Cut(s.identity, ":")
	n, err := strconv.ParseUint(number, 10, 64)
	timeline, errLine := strconv.ParseInt(line, 16, 64)
	made = time.Unix(int64(n>>32), 0) //nolint:gosec // 32 bits
	if err != nil || errLine != nil || made.After(s.now) {
		return s.now, 0
	}
	return made.Add(time.Second), timeline // it is in whole seconds
}

// readMark reads a mark. One that makes no sense is none, of a server that we do not know.
func readMark(text string) backends.Mark {
	var m backends.Mark
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	if decoder.Decode(&m) != nil || m.Identity == "" {
		return backends.Mark{Identity: "unknown"}
	}
	return m
}

// quarantine is for how long nobody may be granted, as far as the store shows. Who only looks writes no mark: the time
// may begin later.
func (d *Driver) quarantine(s *state) time.Duration {
	if s.missing {
		return 0
	}
	_, left := s.admit(d.cfg.longest)
	return left
}

// note writes the mark alone. It says no if somebody else has written it since.
func (d *Driver) note(ctx context.Context, s *state, m backends.Mark) (bool, error) {
	batch := []wire.Statement{d.settings(ctx), d.markRow(s, m, newVersion())}
	done := false
	_, err := d.client.Ask(ctx, batch, func(r wire.Reply) error {
		if len(r.Rows) != len(batch) {
			return errReply
		}
		done = len(r.Rows[1]) == 1
		return replicated(r)
	})
	if hasCode(err, wire.SerializationFailure, wire.Deadlock) {
		return false, nil
	}
	return done, d.classify(err)
}
