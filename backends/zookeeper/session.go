package zookeeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

// patient is the part of a TTL for which a server may owe an answer before a renewal goes to another: half of what the
// runner waits before it sends one beside another.
const patient = 24

// session is a session of ZooKeeper's: that of a grant, or one that holds nothing and is closed after a few requests.
// It is opened by its first request, and goes on over as many connections as it needs, one at a time.
type session struct {
	d      *Driver
	asked  time.Duration      // for how long it is to live without a request, in whole milliseconds
	lease  bool               // it is for a lease: of no use where it is to live for less than was asked
	event  func(e wire.Event) // nil: it watches nothing
	holder string             // who claims with it, guarded by the driver's lock; "": it holds nothing

	mu    sync.Mutex
	known wire.Session // as it was granted; without an ID: there is none yet
	ended bool         // it is let go of, and never opened again
	conn  *wire.Conn   // takes requests; nil: none
	conns []*wire.Conn // all that may be open
}

// newSession makes the session of a lease. Servers count in milliseconds, so that it may live for part of one longer.
func (d *Driver) newSession(ttl time.Duration) *session {
	return &session{d: d, asked: wholeMillis(ttl), lease: true}
}

// newIdle makes one that holds nothing. The servers may let it live for less than it asks for.
func (d *Driver) newIdle(timeout time.Duration) *session {
	return &session{d: d, asked: timeout}
}

// id returns the session's number; 0: it is not open yet.
func (s *session) id() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.ID
}

// granted returns for how long it lives without a request.
func (s *session) granted() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Timeout
}

// do sends requests in one go. An error says that it is not known what became of them.
func (s *session) do(ctx context.Context, calls ...*wire.Call) error {
	if between := s.d.between; between != nil {
		return between(calls, func() error { return s.ask(ctx, calls...) })
	}
	return s.ask(ctx, calls...)
}

func (s *session) ask(ctx context.Context, calls ...*wire.Call) error {
	conn, err := s.connection(ctx)
	if err != nil {
		return s.d.classify(err)
	}
	if err = conn.Do(ctx, calls...); err != nil {
		if !errors.Is(err, context.Canceled) {
			s.d.leave(conn.Addr)
		}
		return s.d.classify(err)
	}
	for _, c := range calls {
		if wire.Is(c.Err, wire.SessionExpired, wire.SessionMoved) {
			conn.Retire() // it is of no use any more
			return c.Err
		}
	}
	return nil
}

// connection returns the one that takes requests, and opens one where there is none. Opening one beside another moves
// the session there: what is on its way on the other may or may not be done.
func (s *session) connection(ctx context.Context) (*wire.Conn, error) {
	s.mu.Lock()
	known := s.known
	if s.ended {
		defer s.mu.Unlock()
		return nil, wire.ErrExpired
	}
	if s.conn != nil && s.conn.Usable() {
		defer s.mu.Unlock()
		return s.conn, nil
	}
	s.mu.Unlock()
	known.Timeout = max(s.asked, known.Timeout) // others were told of what was granted
	conn, err := s.d.dial(ctx, known, s)
	if err != nil {
		return nil, err
	}
	s.d.prune()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Retire()
	}
	granted := conn.Session()
	if s.lease && known.ID != 0 { // what another server grants on top nobody was told, and the next one need not grant it
		granted.Timeout = known.Timeout
	}
	s.conn, s.known = conn, granted
	s.conns = append(slices.DeleteFunc(s.conns, isDead), conn)
	if !s.ended {
		s.d.keep(s)
	}
	if s.ended || s.d.isClosed() { // looked at when Close can see the session
		conn.Close()
	}
	return conn, nil
}

func isDead(c *wire.Conn) bool {
	select {
	case <-c.Dead():
		return true
	default:
		return false
	}
}

// elsewhere makes the next request go out on a new connection, to another server where there are several, if the one that
// there is has been silent for a while: the session moves with the request, and what was on its way is in doubt.
func (s *session) elsewhere() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conn == nil || !s.conn.Usable(): // another one is being opened, or was
		s.d.leave(s.d.current())
	case s.conn.Silent() >= s.asked/patient:
		s.conn.Retire()
		s.d.leave(s.conn.Addr)
		s.conn = nil
	}
}

// farewell ends a session that holds nothing, without waiting for it. It is not opened again, which the server would allow
// until it has ended it; requests that come then it drops without an answer (ZooKeeperServer.submitRequestNow).
func (s *session) farewell() {
	s.mu.Lock()
	if s.conn != nil && s.conn.Usable() {
		s.conn.Farewell(tidying)
	}
	s.mu.Unlock()
	s.drop()
}

// drop lets go of a session and leaves it to expire: it may hold a lease that a request has made of which the reply was
// lost.
func (s *session) drop() {
	s.mu.Lock()
	s.ended = true
	for _, c := range s.conns {
		c.Retire()
	}
	s.mu.Unlock()
	s.d.forget(s)
}

// hangUp closes its connections.
func (s *session) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

// forgetIfDead makes the driver forget a session that has no open connection. With its next one it is known again.
func (s *session) forgetIfDead() {
	if !s.mu.TryLock() { // it is in use, or just saying goodbye: nobody waits for that
		return
	}
	defer s.mu.Unlock()
	if s.conns = slices.DeleteFunc(s.conns, isDead); len(s.conns) == 0 {
		s.d.forget(s)
	}
}

func (d *Driver) keep(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s] = true
}

func (d *Driver) forget(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
}

// prune forgets what nobody let go of: a run whose Finish had no answer, or a grant that came too late, leaves its
// session to expire, and the servers then close its connection.
func (d *Driver) prune() {
	for _, s := range d.all() {
		s.forgetIfDead()
	}
}

// all returns the sessions that may have an open connection.
func (d *Driver) all() []*session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.sessions))
}

// dial opens a connection of a session to the first server that takes it, beginning with the one that took the last. A
// server that is silent costs the whole attempt: the next one begins with another. Where none takes it, the error is a
// *backendurl.Unreached.
func (d *Driver) dial(ctx context.Context, known wire.Session, s *session) (*wire.Conn, error) {
	ctx, cancel := backends.During(ctx, d.life)
	defer cancel()
	u := d.cfg.url
	unreached := new(backendurl.Unreached)
	for range u.Addrs {
		if d.isClosed() {
			return nil, wire.ErrClosed
		}
		addr := d.current()
		conn, err := wire.Dial(ctx, addr, wire.Config{TLS: d.cfg.tls, User: u.User, Password: u.Password, Event: s.event}, known)
		if err == nil {
			d.spoken.Store(true)
			err = s.suits(conn, known)
		}
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, wire.ErrExpired) || errors.Is(err, context.Canceled) {
			return nil, err
		}
		unreached.Failed(addr, err)
		d.leave(addr)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, unreached
}

// suits looks at what a server has granted, and gives back what is too short for a lease: it would end before its holder's
// right does. The error is a *tooShortError.
func (s *session) suits(conn *wire.Conn, known wire.Session) error {
	granted := conn.Session().Timeout
	if !s.lease || granted >= known.Timeout {
		return nil
	}
	if known.ID == 0 {
		conn.Farewell(tidying)
	} else { // another server may keep it for long enough
		conn.Close()
	}
	return &tooShortError{addr: conn.Addr, granted: granted, asked: known.Timeout}
}

// current returns the server that the next connection goes to.
func (d *Driver) current() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.url.Addrs[d.host]
}

// leave makes the next connection go to another server than the one given.
func (d *Driver) leave(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if addrs := d.cfg.url.Addrs; addrs[d.host] == addr {
		d.host = (d.host + 1) % len(addrs)
	}
}
