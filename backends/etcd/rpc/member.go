package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"

	"github.com/leaderrun/leaderrun/internal/panics"
)

// member is one endpoint: at most one connection that takes requests, opened when the first request needs it,
// and what a user needs there.
type member struct {
	addr   string
	config *tls.Config

	mu      sync.Mutex
	closed  bool
	conn    *connection          // takes requests; nil: none
	conns   map[*connection]bool // all that are open
	dialing *dialing

	authenticating chan struct{} // holds one
	token, tokenOf string        // and of whom it is; "": none yet
}

// dialing is a connection being opened, for all requests that wait for it. It ends when nobody does.
type dialing struct {
	cancel  context.CancelFunc
	waiting int
	done    chan struct{} // closed when the rest stands
	conn    *connection
	err     error
}

func newMember(addr string, config *tls.Config) *member {
	return &member{addr: addr, config: config, conns: map[*connection]bool{}, authenticating: make(chan struct{}, 1)}
}

// acquire returns the connection for one request, opening one if there is none that can take it. Who gets it
// must send the request, and then release it. A new connection that does not work is not replaced: the request
// fails, and the reason is seen.
func (m *member) acquire(ctx context.Context) (*connection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	if c := m.conn; c != nil {
		if c.Reserve() == nil {
			c.users++
			return c, nil
		}
		m.retire(c) // closed by the server, or idle for too long
	}
	if m.dialing == nil {
		m.dial(ctx)
	}
	d := m.dialing
	d.waiting++
	m.mu.Unlock()
	select {
	case <-d.done:
	case <-ctx.Done():
	}
	m.mu.Lock()

	if d.waiting--; d.waiting == 0 {
		d.cancel()
		if m.dialing == d {
			m.dialing = nil
		}
	}
	switch {
	case d.err != nil:
		return nil, d.err
	case ctx.Err() == nil:
		return d.conn, nil
	case d.conn != nil: // it came, and was kept for us
		d.conn.users--
		m.dropUnused(d.conn)
	}
	return nil, ctx.Err()
}

// dial begins to open a connection. The mutex is held.
func (m *member) dial(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	d := &dialing{cancel: cancel, done: make(chan struct{})}
	m.dialing = d
	panics.Go(func() {
		defer cancel()
		c, err := m.open(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		defer close(d.done)
		d.conn, d.err = c, err
		if err == nil {
			m.conns[c] = true
		}
		if m.closed || m.dialing != d { // too late
			d.err = errClosed
			if err == nil {
				m.drop(c)
			}
			return
		}
		m.dialing = nil
		if err == nil { // and all who wait use it from now on: it must not be closed before they have seen it
			m.conn, c.users = c, d.waiting
		}
	})
}

func (m *member) open(ctx context.Context) (*connection, error) {
	s, err := dial(ctx, m.addr, m.config)
	if err != nil {
		return nil, err
	}
	return newConnection(ctx, s)
}

// answered notes a sign of life.
func (m *member) answered(c *connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.timeouts = 0
}

// release gives a connection back after a request that ended with err, nil if the server answered.
//
// After a request that timed out the connection takes no more: it may be half open, and a new one costs
// little. Requests that are still on it, above all a watch, go on, and the ping judges them; only the second
// time-out in a row ends them. A request that its caller gave up says nothing about the connection.
func (m *member) release(c *connection, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.users--
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded):
		c.timeouts++
		m.retire(c)
	default:
		m.retire(c)
	}
	m.dropUnused(c)
}

// dropUnused closes a connection that nobody needs any more, or that is broken. The mutex is held.
func (m *member) dropUnused(c *connection) {
	if c.retired && (c.users == 0 || c.timeouts > 1) || c.Err() != nil {
		m.drop(c)
	}
}

// renew makes the next request open a new connection.
func (m *member) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		m.retire(m.conn)
	}
}

// retire keeps a connection from taking requests. It is closed when the last one is over. The mutex is held.
func (m *member) retire(c *connection) {
	c.retired = true
	if m.conn == c {
		m.conn = nil
	}
	if c.users == 0 {
		m.drop(c)
	}
}

// drop closes a connection. The mutex is held.
func (m *member) drop(c *connection) {
	if m.conn == c {
		m.conn = nil
	}
	if m.conns[c] {
		delete(m.conns, c)
		panics.Go(func() { _ = c.Close() }) // it says goodbye first
	}
}

func (m *member) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.conn = true, nil
	for c := range m.conns {
		m.drop(c)
	}
	if m.dialing != nil {
		m.dialing.cancel()
	}
}
