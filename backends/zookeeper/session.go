package zookeeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	// The part of a TTL for which a server may owe an answer before a renewal goes to another: half of what the runner
	// waits before it sends one beside another.
	patient = 24
	// How long a session that holds nothing may take to say goodbye.
	tidying = 500 * time.Millisecond
	// The timeout of a session for a few requests.
	briefly = 4 * time.Second
)

// session is a session of ZooKeeper's: that of a grant, or one that holds nothing and is closed after a few requests.
// It is opened by its first request, and goes on over as many connections as it needs, one at a time.
type session struct {
	store   *store
	asked   time.Duration     // for how long it is to live without a request, in whole milliseconds
	lease   bool              // it is for a lease: of no use where it is to live for less than was asked
	holder  string            // who claims with it; "": it holds nothing
	changed func(path string) // nil: it watches nothing

	finishing chan struct{} // holds one while its run is being finished; nil: it holds nothing

	mu    sync.Mutex
	known wire.Session // as it was granted; without an ID: there is none yet
	ended bool         // it is let go of, and never opened again
	conn  *wire.Conn   // takes requests, if it is usable; nil: none does
}

// newSession makes the session of a lease. Servers count in milliseconds, so that it may live for part of one longer.
func (s *store) newSession(ttl time.Duration, holder string) *session {
	return &session{store: s, asked: wholeMillis(ttl), lease: true, holder: holder, finishing: make(chan struct{}, 1)}
}

// newIdle makes one that holds nothing. The servers may let it live for less than it asks for.
func (s *store) newIdle(timeout time.Duration) *session { return &session{store: s, asked: timeout} }

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

// isOpen says whether it takes requests: nobody has let go of it or closed its driver.
func (s *session) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && !s.store.isClosed()
}

// do sends requests in one go. An error says that it is not known what became of them.
func (s *session) do(ctx context.Context, calls ...*wire.Call) error {
	if between := s.store.between; between != nil {
		return between(calls, func() error { return s.ask(ctx, calls...) })
	}
	return s.ask(ctx, calls...)
}

func (s *session) ask(ctx context.Context, calls ...*wire.Call) error {
	conn, err := s.connection(ctx)
	if err != nil {
		return s.store.classify(err)
	}
	if err = conn.Do(ctx, calls...); err != nil {
		if !errors.Is(err, context.Canceled) {
			s.store.hosts.Leave(conn.Addr)
		}
		return s.store.classify(err)
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
	known, conn, ended := s.known, s.conn, s.ended
	s.mu.Unlock()
	switch {
	case ended:
		return nil, wire.ErrExpired
	case conn != nil && conn.Usable():
		return conn, nil
	}
	known.Timeout = max(s.asked, known.Timeout) // others were told of what was granted
	conn, err := s.dial(ctx, known)
	if err != nil {
		return nil, err
	}
	s.store.prune()
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
	if s.ended || !s.store.keep(s) {
		conn.Close()
	}
	return conn, nil
}

// rotateEndpoint makes the next request go out on a new connection, to another server where there are several, if the one that
// there is has been silent for a while: the session moves with the request, and what was on its way is in doubt.
func (s *session) rotateEndpoint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conn == nil || !s.conn.Usable(): // another one is being opened, or was
		s.store.hosts.Leave(s.store.hosts.Current())
	case s.conn.Silent() >= s.asked/patient:
		s.conn.Retire()
		s.store.hosts.Leave(s.conn.Addr)
		s.conn = nil
	}
}

// close ends a session that holds nothing, without waiting for it. It is not opened again, which the server would allow
// until it has ended it; requests that come then it drops without an answer (ZooKeeperServer.submitRequestNow).
func (s *session) close() {
	s.mu.Lock()
	if s.conn != nil && s.conn.Usable() {
		s.conn.CloseSession(tidying)
	}
	s.mu.Unlock()
	s.drop()
}

// drop lets go of a session and leaves it to expire: it may hold a lease that a request has made of which the reply was
// lost.
func (s *session) drop() {
	s.mu.Lock()
	s.ended = true
	if s.conn != nil {
		s.conn.Retire()
	}
	s.mu.Unlock()
	s.store.forget(s)
}

// hangUp closes its connection. Those that were left for another one are closed when their last request is over.
func (s *session) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
}

// forgetIfDead makes the store forget a session that has no open connection. With its next one it is known again.
func (s *session) forgetIfDead() {
	if !s.mu.TryLock() { // it is in use, or just saying goodbye: nobody waits for that
		return
	}
	defer s.mu.Unlock()
	if s.conn == nil || !s.conn.Usable() {
		s.store.forget(s)
	}
}

// keep makes Close and the end of a run find a session. It says whether there is one to come: false after Close.
func (s *store) keep(x *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[x] = true
	return !s.closed
}

func (s *store) forget(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, x)
}

// prune forgets what nobody let go of: a run whose Finish had no answer, or a grant that came too late, leaves its
// session to expire, and the servers then close its connection.
func (s *store) prune() {
	for _, x := range s.all() {
		x.forgetIfDead()
	}
}

// all returns the sessions that may have an open connection.
func (s *store) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

func (s *store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// dial opens a connection of a session to the first server that takes it, beginning with the one that took the last. A
// server that is silent costs the whole attempt: the next one begins with another. Where none takes it, the error is a
// *backendurl.Unreached.
func (s *session) dial(ctx context.Context, known wire.Session) (*wire.Conn, error) {
	unreached := new(backendurl.Unreached)
	for {
		addr, left := s.store.hosts.Next(unreached)
		if left == 0 {
			return nil, unreached
		}
		conn, err := wire.Dial(ctx, addr, s.store.cfg.wire(s.changed), known)
		if err == nil {
			s.store.spoken.Store(true)
			err = s.suits(conn, known)
		}
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, wire.ErrExpired) || errors.Is(err, context.Canceled) {
			return nil, err
		}
		unreached.Failed(addr, err)
		s.store.hosts.Leave(addr)
		if ctx.Err() != nil {
			return nil, unreached
		}
	}
}

// suits looks at what a server has granted, and gives back what is too short for a lease: it would end before its holder's
// right does. The error is a *tooShortError.
func (s *session) suits(conn *wire.Conn, known wire.Session) error {
	granted := conn.Session().Timeout
	if !s.lease || granted >= known.Timeout {
		return nil
	}
	if known.ID == 0 {
		conn.CloseSession(tidying)
	} else { // another server may keep it for long enough
		conn.Close()
	}
	return &tooShortError{addr: conn.Addr, granted: granted, asked: known.Timeout}
}
