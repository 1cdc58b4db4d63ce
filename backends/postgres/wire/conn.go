package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	protocol   = 3 << 16
	sslRequest = 80877103

	// lastWords is how long a connection may take to say goodbye.
	lastWords = 100 * time.Millisecond

	// restLimit is how long the rest of a message may take that came unasked.
	restLimit = 5 * time.Second
)

// ErrNoTLS says that a server offers no TLS.
var ErrNoTLS = errors.New("the server offers no TLS")

// errBusy is what a server says before anything else if it cannot start a process for us.
var errBusy = errors.New("the server takes no connection")

// Conn is one connection. It serves one caller at a time, but for Close. After an error that is not an *Error whose
// Refused says yes it is closed.
type Conn struct {
	addr   string
	raw    net.Conn // below TLS
	conn   net.Conn
	in     *source
	pid    int
	secret int               // with pid the key by which to cancel what the connection waits for
	params map[string]string // those that somebody asks for, with what the server says of them
	heard  []string          // payloads of notifications that nobody has asked for yet
	kept   int               // how much memory they take
	broken atomic.Bool

	keyed   bool // the server gave pid and secret
	cancels bool // what was asked last is to be cancelled if nobody waits for it any more
	left    bool // it was not answered
}

// Dial opens a connection to one address. It ends with ctx.
func Dial(ctx context.Context, cfg *Config, addr string) (*Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := newConn(addr, raw)
	err = c.during(ctx, func() error {
		if err := c.encrypt(ctx, cfg); err != nil {
			return err
		}
		return c.logIn(cfg)
	})
	if err != nil {
		c.broken.Store(true)
		c.Close()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return c, nil
}

func newConn(addr string, raw net.Conn) *Conn {
	return &Conn{addr: addr, raw: raw, conn: raw, params: map[string]string{"server_version": "", "in_hot_standby": ""}}
}

// encrypt asks for TLS, if the configuration wants it.
func (c *Conn) encrypt(ctx context.Context, cfg *Config) error {
	if cfg.Security == Plain {
		return nil
	}
	var o output
	o.begin(0)
	o.int32(sslRequest)
	o.end()
	if _, err := c.raw.Write(o.b); err != nil {
		return err
	}
	// One byte and no more is read before the handshake: what came after it would be from somebody between (CVE-2021-23222).
	var answer [1]byte
	if _, err := c.raw.Read(answer[:]); err != nil {
		return err
	}
	switch {
	case answer[0] == 'N' && cfg.Security == Prefer:
		return nil
	case answer[0] == 'N':
		return ErrNoTLS
	case answer[0] == 'E':
		return errBusy
	case answer[0] != 'S':
		return unexpected("what answers is no PostgreSQL server")
	}
	config := new(tls.Config)
	if cfg.TLS != nil {
		config = cfg.TLS.Clone()
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(c.addr)
		if err != nil {
			return err
		}
		config.ServerName = host
	}
	config.NextProtos = []string{"postgresql"}
	conn := tls.Client(c.raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	c.conn = conn
	return nil
}

// logIn says who we are, proves it, and waits until the server is ready.
func (c *Conn) logIn(cfg *Config) error {
	c.in = newSource(c.conn)
	var o output
	o.begin(0)
	o.int32(protocol)
	for _, parameter := range [][2]string{
		{"user", cfg.User}, {"database", cfg.Database}, {"application_name", cfg.Application}, {"client_encoding", "UTF8"},
	} {
		o.text(parameter[0])
		o.text(parameter[1])
	}
	o.text("")
	o.end()
	if err := c.write(&o); err != nil {
		return err
	}
	auth := &authentication{cfg: cfg, tls: c.Encrypted(), secret: c.Encrypted() || isLocal(c.raw)}
	for {
		m, err := c.in.receive()
		if err != nil {
			return err
		}
		switch {
		case m.kind == 'R':
			if err := c.prove(auth, &m); err != nil {
				return err
			}
		case m.kind == 'v': // NegotiateProtocolVersion: we asked for what all know
			return unexpected("the server does not speak version 3.0 of the protocol")
		case auth.phase != admitted && m.kind != 'E':
			return unexpected("a message of type %q before the server has let us in", m.kind)
		case m.kind == 'K' && !c.keyed:
			c.pid, c.secret = m.int32(), m.int32()
			c.keyed = m.over() == nil
		case m.kind == 'Z':
			if status := m.byte(); m.over() != nil || status != 'I' {
				return unexpected("the server is ready for something else")
			}
			return nil
		default:
			if meant, err := c.aside(&m, nil); err != nil || meant {
				return cmp.Or(err, unexpected("a message of type %q at the beginning", m.kind))
			}
		}
	}
}

// prove answers an Authentication message.
func (c *Conn) prove(auth *authentication, m *message) error {
	answer, err := auth.answer(m)
	if err != nil || answer == nil {
		return err
	}
	var o output
	o.begin('p')
	o.bytes(answer)
	o.end()
	return c.write(&o)
}

// isLocal says whether a connection does not leave this machine.
func isLocal(conn net.Conn) bool {
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// Ask runs statements in one transaction that is over when it returns, in one round trip. An error that is an *Error
// with Refused is the server's, and nothing was changed. After any other the outcome is unknown.
func (c *Conn) Ask(ctx context.Context, batch []Statement) (Reply, error) {
	var o output
	c.cancels = false
	room := int64(most)
	for _, s := range batch {
		c.cancels = c.cancels || s.Cancel
		if s.List {
			room = mostList
		}
		if err := o.statement(s); err != nil {
			return Reply{}, err // nothing was sent
		}
	}
	o.begin('S')
	o.end()
	var reply Reply
	var answer *Error
	err := c.during(ctx, func() (err error) {
		c.in.room = room
		if err = c.write(&o); err == nil {
			answer, err = c.batch(len(batch), &reply)
		}
		return err
	})
	if err == nil && answer != nil {
		err = answer
	}
	if err != nil {
		return reply, fmt.Errorf("%s: %w", c.addr, err)
	}
	return reply, nil
}

// batch reads the answers to a number of statements, in which nothing may be missing and nothing too much.
func (c *Conn) batch(statements int, reply *Reply) (answer *Error, err error) {
	const want = "12C" // ParseComplete, BindComplete, and after the rows CommandComplete
	var rows []Row
	at := 0
	for {
		m, err := c.receive(reply)
		if refused, ok := errors.AsType[*Error](err); ok && refused.Refused() && answer == nil {
			answer = refused // the server ignores what follows, up to the end of the batch
			continue
		}
		if err != nil {
			return nil, err
		}
		complete := at == len(want)*statements
		switch {
		case m.kind == 'Z':
			if status := m.byte(); m.over() != nil || status != 'I' || answer == nil && !complete {
				return nil, unexpected("a batch ends in the middle")
			}
			return answer, nil
		case answer != nil || complete:
			return nil, unexpected("a message of type %q after the end of a batch", m.kind)
		case m.kind == 'D' && at%len(want) == 2:
			row, err := c.in.row(&m)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		case m.kind == want[at%len(want)]:
			if at++; at%len(want) == 0 {
				reply.Rows = append(reply.Rows, rows)
				rows = nil
			}
		default:
			return nil, unexpected("a message of type %q where %q was due", m.kind, want[at%len(want)])
		}
	}
}

// Wait waits for a notification of what the connection listens to, and returns its payload. When it has waited for the
// limit it says that there was none, and the connection is as good as before.
func (c *Conn) Wait(ctx context.Context, limit time.Duration) (payload string, told bool, err error) {
	err = c.during(ctx, func() error {
		end := time.Now().Add(limit)
		c.in.room = most
		for len(c.heard) == 0 {
			if err := c.await(ctx, end); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
					return nil
				}
				return err
			}
			m, err := c.in.receive()
			if err != nil {
				return err
			}
			if meant, err := c.aside(&m, nil); err != nil || meant {
				return cmp.Or(err, unexpected("a message of type %q that nobody asked for", m.kind))
			}
		}
		return nil
	})
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", c.addr, err)
	}
	if len(c.heard) == 0 {
		return "", false, nil
	}
	payload = c.heard[0]
	c.heard = c.heard[1:]
	c.kept -= perMessage + len(payload)
	return payload, true, nil
}

// await waits until there is something to read. Nothing is taken: a message is never torn.
func (c *Conn) await(ctx context.Context, end time.Time) error {
	c.deadline(ctx, end)
	_, err := c.in.Peek(1)
	if err == nil {
		end = time.Now().Add(restLimit) // a message that has begun
	} else {
		end = time.Time{}
	}
	c.deadline(ctx, end)
	return err
}

// deadline sets when reading ends, unless ctx has ended, which sets one too.
func (c *Conn) deadline(ctx context.Context, end time.Time) {
	_ = c.raw.SetReadDeadline(end)
	if ctx.Err() != nil {
		_ = c.raw.SetReadDeadline(time.Unix(1, 0))
	}
}

// receive reads the next message that is meant for who asked.
func (c *Conn) receive(reply *Reply) (message, error) {
	for {
		m, err := c.in.receive()
		if err != nil {
			return message{}, err
		}
		if meant, err := c.aside(&m, reply); err != nil || meant {
			return m, err
		}
	}
}

// aside deals with what a server may send at any time, or else says that a message is meant for who asked.
func (c *Conn) aside(m *message, reply *Reply) (meant bool, err error) {
	switch m.kind {
	case 'N', 'E':
		report, err := c.in.report(m)
		switch {
		case err != nil:
			return false, err
		case m.kind == 'E':
			return false, report
		case reply != nil:
			reply.Notices = append(reply.Notices, report)
		}
		return false, nil
	case 'S':
		name, value := m.text(), m.text()
		if _, asked := c.params[name]; asked {
			c.params[name] = clip(value)
		}
		return false, m.over()
	case 'A':
		m.int32() // the process that notifies
		m.text()  // the channel: we listen to one
		payload := m.text()
		c.heard = append(c.heard, payload)
		if c.kept += perMessage + len(payload); c.kept > most {
			return false, unexpected("more notifications than anybody listens to")
		}
		return false, m.over()
	}
	return true, nil
}

func (c *Conn) write(o *output) error {
	_, err := c.conn.Write(o.b)
	return err
}

// during lets f use the connection until ctx ends. What was interrupted, or is not understood, ends the connection: the
// next answer on it might be to an earlier question.
func (c *Conn) during(ctx context.Context, f func() error) error {
	if c.broken.Load() {
		return net.ErrClosed
	}
	if err := ctx.Err(); err != nil { // nothing was sent: the connection is as good as before
		return err
	}
	_ = c.raw.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(time.Unix(1, 0)) })
	err := f()
	interrupted := !stop()
	if err == nil && !interrupted {
		return nil
	}
	c.broken.Store(true)
	if err == nil { // it came in the last moment: the answer counts
		return nil
	}
	if _, answered := errors.AsType[*Error](err); answered {
		return err
	}
	c.left = true
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%w (%w)", ctxErr, err)
	}
	return err
}

// Broken says that the connection cannot be used any more.
func (c *Conn) Broken() bool { return c.broken.Load() }

// Addr returns the address that the connection was opened to.
func (c *Conn) Addr() string { return c.addr }

// PID is the number of the process that serves this connection, as the server said when it began: behind a pooler some
// other one, or none, serves a request.
func (c *Conn) PID() string { return strconv.Itoa(c.pid) }

// Parameter returns what the server reports of itself: server_version, in_hot_standby (from version 14 on); "": nothing.
func (c *Conn) Parameter(name string) string { return c.params[name] }

// Encrypted says whether TLS is used.
func (c *Conn) Encrypted() bool { return c.conn != c.raw }

// Close closes the connection at once, with a word of goodbye if there is nothing in the way of it. It may be called at any
// time, and ends what is on its way.
func (c *Conn) Close() {
	_ = c.raw.SetDeadline(time.Now().Add(lastWords))
	if !c.broken.Load() {
		var o output
		o.begin('X')
		o.end()
		_ = c.write(&o)
	}
	_ = c.raw.Close()
}
