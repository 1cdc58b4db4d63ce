package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

const (
	// How often a watch looks by itself: where notifications come, to find out that the connection is dead and what was
	// changed by hand; behind a pooler, which does not pass them on, to find out anything.
	lookListening = 10 * time.Second
	lookPolling   = time.Second
	lookLimit     = 5 * time.Second // for one answer
)

// Follow implements backends.Store on a connection of its own, until that breaks; the error says how, and is never nil. It tells
// to look when the watch stands: who looks then sees what happened before.
func (s *store) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	return s.classify(s.follow(ctx, job, tell))
}

func (s *store) follow(ctx context.Context, job string, tell func(backends.News)) error {
	open, cancel := context.WithTimeout(ctx, 2*lookLimit)
	defer cancel()
	conn, err := s.client.Dedicated(open, "watch")
	if err != nil {
		return err
	}
	defer s.client.Drop(conn)
	listens, err := s.listen(ctx, conn)
	if err != nil {
		return err
	}
	var last *state
	for told := true; ; {
		now, err := s.look(ctx, conn, job)
		if err != nil {
			return err
		}
		if told || now.wakes(last) {
			tell(backends.News{Look: true})
		}
		last = now
		if told, err = s.rest(ctx, conn, job, listens); err != nil {
			return err
		}
	}
}

// listen asks for notifications, if the process that serves the connection is the one that it was opened to. A pooler
// would give the next request to another one.
func (s *store) listen(ctx context.Context, conn *wire.Conn) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	reply, err := conn.Ask(ctx, []wire.Statement{{SQL: "SELECT pg_backend_pid()::text"}})
	if err != nil {
		return false, err
	}
	if len(reply.Rows) != 1 || len(reply.Rows[0]) != 1 || len(reply.Rows[0][0]) != 1 {
		return false, errReply
	}
	if reply.Rows[0][0][0].Text != conn.PID() {
		return false, nil
	}
	_, err = conn.Ask(ctx, []wire.Statement{{SQL: `LISTEN "` + s.sql.channel + `"`}})
	return err == nil, err
}

// look reads the row. It is also the sign of life that a watch wants of its connection.
func (s *store) look(ctx context.Context, conn *wire.Conn, job string) (*state, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	reply, err := conn.Ask(ctx, s.reading(ctx, job))
	if hasCode(err, wire.UndefinedTable) {
		return &state{missing: true}, nil
	}
	if err != nil {
		return nil, s.unread(job, err)
	}
	now, err := s.state(job, reply)
	if errors.Is(err, wire.ErrStandby) {
		s.client.RotateEndpoint()
	}
	return now, err
}

// rest waits for a notification of the job, which it says, or until it is time to look.
func (s *store) rest(ctx context.Context, conn *wire.Conn, job string, listens bool) (told bool, err error) {
	if !listens {
		select {
		case <-time.After(lookPolling):
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	for end := time.Now().Add(lookListening); time.Now().Before(end); { // however much is told of other jobs
		key, heard, err := conn.Wait(ctx, time.Until(end))
		if err != nil || !heard || key == keyOf(job) {
			return heard, err
		}
	}
	return false, nil
}

// wakes says whether something has changed that a waiter or the holder wants to know: the lease is free, or somebody
// else's, or the holder is asked to stop.
func (s *state) wakes(last *state) bool {
	if last == nil {
		return true
	}
	changed := s.row != last.row || s.version != last.version || s.xmin != last.xmin
	if !s.leased() {
		return changed || last.leased()
	}
	r := &s.record
	return changed && (last.holder != "" && s.holder != last.holder || r.AsksToStop())
}

func (s *state) leased() bool { return s.View(backends.Request{}).Lease != nil }
