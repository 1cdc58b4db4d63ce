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

// Watch implements backends.Watcher on a connection of its own. It sends Look when the watch stands, also after a
// reconnection: who looks then sees what happened before. The channel is closed before ctx ends only where no
// retry helps.
func (d *Driver) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	return backends.Rewatch(ctx, d.life, func(ctx context.Context, tell func(backends.News)) error {
		return d.classify(d.follow(ctx, job, tell))
	})
}

// follow tells what happens until its connection breaks; the error says how, and is never nil.
func (d *Driver) follow(ctx context.Context, job string, tell func(backends.News)) error {
	open, cancel := context.WithTimeout(ctx, 2*lookLimit)
	defer cancel()
	conn, err := d.client.Dedicated(open, "watch")
	if err != nil {
		return err
	}
	defer d.client.Drop(conn)
	listens, err := d.listen(ctx, conn)
	if err != nil {
		return err
	}
	var last *state
	for told := true; ; {
		now, err := d.look(ctx, conn, job)
		if err != nil {
			return err
		}
		if told || now.wakes(last) {
			tell(backends.News{Look: true})
		}
		last = now
		if told, err = d.rest(ctx, conn, job, listens); err != nil {
			return err
		}
	}
}

// listen asks for notifications, if the process that serves the connection is the one that it was opened to. A pooler
// would give the next request to another one.
func (d *Driver) listen(ctx context.Context, conn *wire.Conn) (bool, error) {
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
	_, err = conn.Ask(ctx, []wire.Statement{{SQL: `LISTEN "` + d.sql.channel + `"`}})
	return err == nil, err
}

// look reads the row. It is also the sign of life that a watch wants of its connection.
func (d *Driver) look(ctx context.Context, conn *wire.Conn, job string) (*state, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	reply, err := conn.Ask(ctx, d.reading(ctx, job))
	if hasCode(err, wire.UndefinedTable) {
		return &state{missing: true}, nil
	}
	if err != nil {
		return nil, d.unread(job, err)
	}
	s, err := d.state(job, reply)
	if errors.Is(err, wire.ErrStandby) {
		d.client.Elsewhere()
	}
	return s, err
}

// rest waits for a notification of the job, which it says, or until it is time to look.
func (d *Driver) rest(ctx context.Context, conn *wire.Conn, job string, listens bool) (told bool, err error) {
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
	if s.view(0).Lease == nil {
		return changed || last.view(0).Lease != nil
	}
	r := &s.record
	return changed && (last.holder != "" && s.holder != last.holder || r.Break != nil && r.Break.Token >= r.Token)
}
