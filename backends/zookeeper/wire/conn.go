package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/panics"
)

const (
	// How long in bytes what a server sends may be: what opens a session, a reply, and a list of names. A server takes nodes of 1 MB
	// at most, unless jute.maxbuffer is raised, and no record comes near it.
	maxOpening = 1 << 10
	maxFrame   = 1<<20 + 1<<12
	maxList    = 4 << 20

	// The numbers of what is no reply to a numbered request (ClientCnxn).
	xidEvent int32 = -1
	xidPing  int32 = -2
	xidAuth  int32 = -4
)

// Config says how to talk to a server.
type Config struct {
	TLS            *tls.Config       // nil: none
	User, Password string            // "": nobody. Digest authentication, which no server refuses: a wrong password has no rights
	Changed        func(path string) // is told of which node a watch has seen something, and must not block; nil: nobody
}

// Conn is one connection of one session. Its methods are safe for concurrent use.
type Conn struct {
	Addr    string
	session Session
	changed func(path string)
	net     net.Conn
	raw     net.Conn // below TLS: closing it does not wait for anybody
	reader  *bufio.Reader

	writing sync.Mutex // requests are written in the order in which they are queued

	mu             sync.Mutex
	xid            int32
	waiting        []*Call // for replies, in the order of the requests
	pings          []*Call
	watches        map[string]int // events that may come, by path: a watch tells once
	authenticating bool           // the answer to a password may come
	quiet          time.Time      // since when the oldest request waits, or the last reply came
	retired        bool
	err            error // why it is dead
	dead           chan struct{}
}

// Dial opens a connection to a server and, there, the session: a new one if s has no ID. ErrExpired is the servers' word
// that there is no such session; after any other error it is not known whether there is a new one, which nobody uses and
// which expires.
func Dial(ctx context.Context, addr string, cfg Config, s Session) (*Conn, error) {
	c := &Conn{Addr: addr, changed: cfg.Changed, watches: map[string]int{}, dead: make(chan struct{})}
	if err := c.open(ctx, cfg, s); err != nil {
		if ctxErr := ctx.Err(); ctxErr != nil {
			err = fmt.Errorf("%w (%w)", ctxErr, err)
		}
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	panics.Go(c.read)
	return c, nil
}

func (c *Conn) open(ctx context.Context, cfg Config, s Session) (err error) {
	c.raw, err = new(net.Dialer).DialContext(ctx, "tcp", c.Addr)
	if err != nil {
		return err
	}
	c.net = c.raw
	stop := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	defer func() {
		if !stop() && err == nil { // it ended, and the connection with it
			err = ctx.Err()
		}
		if err != nil {
			_ = c.raw.Close()
		}
	}()
	if cfg.TLS != nil {
		conn, err := backendurl.StartTLS(ctx, c.raw, cfg.TLS, c.Addr)
		if err != nil {
			return backendurl.Opening(err, true, "a ZooKeeper")
		}
		c.net = conn
	}
	c.reader = bufio.NewReader(c.net)
	return c.connect(cfg, s)
}

// connect opens the session (zookeeper.jute, proto.ConnectRequest), and says whose it is. The last zxid is always 0: what
// a server must at least know is asked for by Sync.
func (c *Conn) connect(cfg Config, s Session) error {
	given := s.Password
	if given == nil {
		given = make([]byte, 16)
	}
	e := encoder{}.int32(0).int64(0)             // the version of the protocol, and the last zxid that was seen
	e = e.int32(int32(s.Timeout.Milliseconds())) //nolint:gosec // 24 days
	e = e.int64(s.ID).buffer(given).bool(false)  // a server that may only be read is of no use
	if _, err := c.net.Write(encoder{}.buffer(e)); err != nil {
		return err
	}
	frame, err := c.frame(maxOpening)
	if err != nil {
		if cfg.TLS == nil {
			err = backendurl.Opening(err, false, "a ZooKeeper")
		}
		return fmt.Errorf("no session was opened: %w", err)
	}
	d := &decoder{b: frame}
	_ = d.int32()
	timeout, id, password := d.int32(), d.int64(), d.buffer()
	switch {
	case d.err != nil:
		return d.err
	case timeout <= 0 || id == 0:
		return ErrExpired
	case s.ID != 0 && id != s.ID:
		d.fail("a session that was not asked for")
		return d.err
	}
	c.session = Session{ID: id, Password: slices.Clone(password), Timeout: time.Duration(timeout) * time.Millisecond}
	return c.authenticate(cfg)
}

// authenticate does not wait for the answer: requests that follow are served after it.
func (c *Conn) authenticate(cfg Config) error {
	if cfg.User == "" {
		return nil
	}
	c.authenticating = true
	e := encoder{}.int32(xidAuth).int32(opAuth).int32(0).string("digest").string(cfg.User + ":" + cfg.Password)
	_, err := c.net.Write(encoder{}.buffer(e))
	return err
}

// Session returns the session as it was granted.
func (c *Conn) Session() Session { return c.session }

// Do sends requests in one go and waits for all replies. Its error says that the connection is dead and which replies
// there are is not known: one may be being read, so that no call may be looked at then. Else what the server answers to each
// request is in the calls. It ends with the context, and the connection with it.
func (c *Conn) Do(ctx context.Context, calls ...*Call) error {
	if err := c.send(ctx, calls); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, panics.Caught(func() { c.fail(ctx.Err()) }))()
	for _, call := range calls {
		select {
		case <-call.done:
		case <-c.dead:
			select {
			case <-call.done: // its reply came first
			default:
				return c.failure()
			}
		}
	}
	return nil
}

func (c *Conn) send(ctx context.Context, calls []*Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, panics.Caught(func() { c.fail(ctx.Err()) }))()
	c.writing.Lock()
	defer c.writing.Unlock()
	var e encoder
	c.mu.Lock()
	if c.err != nil || c.retired {
		c.mu.Unlock()
		return c.failure()
	}
	if len(c.waiting)+len(c.pings) == 0 {
		c.quiet = time.Now()
	}
	for _, call := range calls {
		if call.Op.Watch {
			c.watches[call.Op.path]++
		}
		if call.Op.Code == opPing {
			call.xid = xidPing
			c.pings = append(c.pings, call)
		} else {
			c.xid = c.xid%(1<<31-1) + 1 // those below 1 have a meaning
			call.xid = c.xid
			c.waiting = append(c.waiting, call)
		}
		e = e.buffer(append(encoder{}.int32(call.xid).int32(call.Op.Code), call.Op.body...))
	}
	c.mu.Unlock()
	if _, err := c.net.Write(e); err != nil {
		c.fail(err)
		return c.failure()
	}
	return nil
}

// read takes replies and events until the connection ends.
func (c *Conn) read() {
	for {
		frame, err := c.frame(maxList)
		if err == nil {
			err = c.handle(frame)
		}
		if err != nil {
			c.fail(fmt.Errorf("connection lost: %w", err))
			return
		}
	}
}

// frame reads one message of at most so many bytes, of which only a list may be longer than maxFrame.
func (c *Conn) frame(most int32) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c.reader, length[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(length[:])) //nolint:gosec // the same bits
	if n < 0 || n > most || n > maxFrame && !c.lists() {
		return nil, &ProtocolError{What: fmt.Sprintf("a frame of %d bytes", n)}
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(c.reader, frame)
	return frame, err
}

// lists says whether the next reply is one to GetChildren.
func (c *Conn) lists() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0 && c.waiting[0].Op.Code == opGetChildren
}

// handle takes one message. What nobody waits for ends the connection: so nothing goes on for ever.
func (c *Conn) handle(frame []byte) error {
	d := &decoder{b: frame}
	xid, _, code := d.int32(), d.int64(), Code(d.int32())
	if d.err != nil {
		return d.err
	}
	switch xid {
	case xidEvent:
		_, _ = d.int32(), d.int32() // what became of the node, and the state of the session
		path := d.string()
		if d.err == nil && !c.watched(path) {
			d.fail("an event that nobody watches for")
		}
		if d.err == nil && c.changed != nil {
			c.changed(path)
		}
		return d.err
	case xidAuth:
		switch {
		case !c.authenticating:
			d.fail("an answer to what was not asked")
		case code != codeOK:
			return &Error{Code: code}
		}
		c.authenticating = false
		return d.err
	}
	call := c.next(xid)
	if call == nil {
		d.fail("an answer to what was not asked")
		return d.err
	}
	if code != codeOK {
		call.Err = &Error{Code: code, Path: call.Op.path}
	} else if call.decode(d); d.err != nil {
		return d.err
	}
	close(call.done)
	c.hangUpIfUnused()
	return nil
}

// watched says whether a watch is set on a path, which is gone then.
func (c *Conn) watched(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.watches[path]
	if n > 1 {
		c.watches[path] = n - 1
	} else {
		delete(c.watches, path)
	}
	return n > 0
}

// next returns the call that a reply is for: the oldest, or none.
func (c *Conn) next(xid int32) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := &c.waiting
	if xid == xidPing {
		queue = &c.pings
	}
	if len(*queue) == 0 || (*queue)[0].xid != xid {
		return nil
	}
	call := (*queue)[0]
	*queue = (*queue)[1:]
	c.quiet = time.Now()
	return call
}

// Retire makes the connection take no more requests, and closes it when those that are on their way are over.
func (c *Conn) Retire() {
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
	c.hangUpIfUnused()
}

func (c *Conn) hangUpIfUnused() {
	c.mu.Lock()
	unused := c.retired && len(c.waiting)+len(c.pings) == 0
	c.mu.Unlock()
	if unused {
		c.fail(ErrClosed)
	}
}

// Silent returns for how long the server has owed an answer; 0: it owes none.
func (c *Conn) Silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting)+len(c.pings) == 0 {
		return 0
	}
	return time.Since(c.quiet)
}

// Dead is closed when the connection is.
func (c *Conn) Dead() <-chan struct{} { return c.dead }

// Usable says whether the connection takes requests.
func (c *Conn) Usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.retired
}

// fail ends the connection, for the first reason that there is.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.dead)
	_ = c.raw.Close()
}

func (c *Conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return fmt.Errorf("%s: %w", c.Addr, ErrClosed)
	}
	return fmt.Errorf("%s: %w", c.Addr, c.err)
}

// Close ends the connection, at once. The session lives on until it expires.
func (c *Conn) Close() { c.fail(ErrClosed) }

// CloseSession ends the session without waiting for the answer: the request is written, and the connection closed when it is
// answered, or after a time.
func (c *Conn) CloseSession(limit time.Duration) {
	call := NewCall(CloseSession())
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	err := c.send(ctx, []*Call{call})
	c.Retire()
	if err != nil {
		cancel()
		c.Close()
		return
	}
	panics.Go(func() {
		defer cancel()
		select {
		case <-c.dead:
		case <-ctx.Done():
			c.Close()
		}
	})
}
