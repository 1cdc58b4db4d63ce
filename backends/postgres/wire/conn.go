package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// lastWords is how long a connection may take to say goodbye.
const lastWords = 100 * time.Millisecond

// Conn is one connection. It serves one caller at a time, but for Close. After an error that is not an *Error whose
// Refused says yes it is closed.
type Conn struct {
	addr   string
	raw    net.Conn // below TLS
	conn   net.Conn
	in     *source
	pg     *pgconn.PgConn // which has logged in, and can cancel; it asks nothing
	front  *pgproto3.Frontend
	params map[string]string // those that somebody asks for, with what the server says of them
	heard  []string          // payloads of notifications that nobody has asked for yet
	kept   int               // how much memory they take
	broken atomic.Bool

	cancels bool // what was asked last is to be cancelled if nobody waits for it any more
	left    bool // it was not answered
}

func newConn(addr string) *Conn {
	return &Conn{addr: addr, in: new(source), params: map[string]string{"server_version": "", "in_hot_standby": ""}}
}

// Ask runs statements in one transaction that is over when it returns, in one round trip. An error that is an *Error
// with Refused is the server's, and nothing was changed. After any other the outcome is unknown.
func (c *Conn) Ask(ctx context.Context, batch []Statement) (Reply, error) {
	c.cancels = false
	room := int64(most)
	for _, s := range batch {
		c.cancels = c.cancels || s.Cancel
		if s.List {
			room = mostList
		}
	}
	var reply Reply
	var answer *Error
	err := c.during(ctx, func() (err error) {
		c.in.room = room
		if err = c.send(batch); err == nil {
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

// send sends what runs the statements: Parse, Bind of what has no name, and Execute for each, and a Sync.
func (c *Conn) send(batch []Statement) error {
	for _, s := range batch {
		args := make([][]byte, len(s.Args))
		for i, v := range s.Args {
			if v.Valid {
				args[i] = []byte(v.Text)
			}
		}
		c.front.SendParse(&pgproto3.Parse{Query: s.SQL})
		c.front.SendBind(&pgproto3.Bind{Parameters: args})
		c.front.SendExecute(&pgproto3.Execute{})
	}
	c.front.SendSync(&pgproto3.Sync{})
	return c.front.Flush()
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
		switch kind := c.in.kind; {
		case kind == 'Z':
			if answer == nil && !complete {
				return nil, unexpected("a batch ends in the middle")
			}
			return answer, nil
		case answer != nil || complete:
			return nil, unexpected("a message of type %q after the end of a batch", kind)
		case kind == 'D' && at%len(want) == 2:
			row, err := c.in.row(m)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		case kind == want[at%len(want)]:
			if at++; at%len(want) == 0 {
				reply.Rows = append(reply.Rows, rows)
				rows = nil
			}
		default:
			return nil, unexpected("a message of type %q where %q was due", kind, want[at%len(want)])
		}
	}
}

// Wait waits for a notification of what the connection listens to, and returns its payload. When it has waited for the
// limit it says that there was none, and the connection is as good as before: the rest of a message that has begun is read by
// whoever reads next.
func (c *Conn) Wait(ctx context.Context, limit time.Duration) (payload string, told bool, err error) {
	err = c.during(ctx, func() error {
		_ = c.raw.SetReadDeadline(time.Now().Add(limit))
		if ctx.Err() != nil { // which has set a deadline too
			return ctx.Err()
		}
		c.in.room = most
		for len(c.heard) == 0 {
			m, err := c.in.receive(c.front)
			if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
				return nil
			}
			if err != nil {
				return err
			}
			if meant, err := c.aside(m, nil); err != nil || meant {
				return cmp.Or(err, unexpected("a message of type %q that nobody asked for", c.in.kind))
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

// receive reads the next message that is meant for who asked. Its content counts until the next one is read.
func (c *Conn) receive(reply *Reply) (pgproto3.BackendMessage, error) {
	for {
		m, err := c.in.receive(c.front)
		if err != nil {
			return nil, err
		}
		if meant, err := c.aside(m, reply); err != nil || meant {
			return m, err
		}
	}
}

// aside deals with what a server may send at any time, or else says that a message is meant for who asked.
func (c *Conn) aside(m pgproto3.BackendMessage, reply *Reply) (meant bool, err error) {
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return false, reportOf(m)
	case *pgproto3.NoticeResponse:
		if reply != nil {
			reply.Notices = append(reply.Notices, reportOf((*pgproto3.ErrorResponse)(m)))
		}
		return false, c.in.spend(perReport)
	case *pgproto3.ParameterStatus:
		if _, asked := c.params[m.Name]; asked {
			c.params[m.Name] = httplimit.Brief(m.Value)
		}
		return false, nil
	case *pgproto3.NotificationResponse: // of the channel that we listen to
		c.heard = append(c.heard, m.Payload)
		if c.kept += perMessage + len(m.Payload); c.kept > most {
			return false, unexpected("more notifications than anybody listens to")
		}
		return false, nil
	}
	return true, nil
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
func (c *Conn) PID() string { return strconv.FormatUint(uint64(c.pg.PID()), 10) }

// Parameter returns what the server reports of itself: server_version, in_hot_standby (from version 14 on); "": nothing.
func (c *Conn) Parameter(name string) string { return c.params[name] }

// Encrypted says whether TLS is used.
func (c *Conn) Encrypted() bool { return c.conn != c.raw }

// Close closes the connection at once, with a word of goodbye if there is nothing in the way of it. It may be called at any
// time, and ends what is on its way.
func (c *Conn) Close() {
	_ = c.raw.SetDeadline(time.Now().Add(lastWords))
	if goodbye, err := new(pgproto3.Terminate).Encode(nil); err == nil && !c.broken.Load() {
		_, _ = c.conn.Write(goodbye)
	}
	_ = c.raw.Close()
}
