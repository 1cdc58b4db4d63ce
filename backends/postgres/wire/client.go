package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// Client asks one database that may be on several hosts, of which one at a time takes what is written. Its methods are
// safe for concurrent use and return when their context ends.
//
// Each request has a connection to itself. One that was used without a fault is kept for the next request, one and no
// more. Requests go to the current host, which at first is the first one; whoever finds that it does not serve goes
// on to the next before anything was done, and makes that the current one. Each request tries each host once, wherever
// others go meanwhile. One that was carried out, or may have been, is not repeated. One
// that says so, and whose answer does not come, is cancelled on the server; the caller does not wait for that.
type Client struct {
	cfg   Config
	open  func(ctx context.Context, cfg *Config, addr string) (*Conn, error)
	hosts *backendurl.Rotation

	life    context.Context // ends with Close, and connections that are being opened with it
	endLife context.CancelFunc

	mu      sync.Mutex
	closed  bool
	idle    *Conn
	conns   map[*Conn]bool
	leaving sync.WaitGroup // connections that are not of conns any more, see leave; grows only while not closed
}

// ErrStandby says that a host only follows another one.
var ErrStandby = errors.New("the server is in recovery: it takes nothing that is written")

var errClosed = errors.New("the client is closed")

// NewClient makes a client. It asks nobody.
func NewClient(cfg Config) *Client {
	c := &Client{cfg: cfg, open: Dial, hosts: backendurl.NewRotation(cfg.Addrs), conns: map[*Conn]bool{}}
	c.life, c.endLife = context.WithCancel(context.Background())
	return c
}

// Ask runs a batch, see Conn.Ask. check looks at the reply; it may say ErrStandby of a host that was only read from, and
// then the next one is asked. If none takes what is written, the error is a *backendurl.Unreached.
func (c *Client) Ask(ctx context.Context, batch []Statement, check func(Reply) error) (Reply, error) {
	tried := new(backendurl.Unreached)
	for {
		conn, err := c.take(ctx, tried)
		if err != nil {
			return Reply{}, err
		}
		reply, err := conn.Ask(ctx, batch)
		if err == nil && check != nil {
			if err = check(reply); err != nil { // it may be the answer to something else
				conn.broken.Store(true)
				err = fmt.Errorf("%s: %w", conn.Addr(), err)
			}
		}
		c.put(conn)
		if err == nil {
			return reply, nil
		}
		if shouldRotate(err) && !errors.Is(err, context.Canceled) {
			c.moveOn(conn.Addr())
		}
		if !readOnly(err) || ctx.Err() != nil {
			return reply, err
		}
		tried.Failed(conn.Addr(), err)
	}
}

// readOnly says that a host takes nothing that is written, and has not.
func readOnly(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return errors.Is(err, ErrStandby) || ok && e.Code == readOnlyTransaction && e.Refused()
}

// shouldRotate says whether the next request had better go to another host.
func shouldRotate(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || !e.Refused() || e.Code == readOnlyTransaction
}

// Dedicated opens a connection of the caller's own to the current host, who closes it by Drop. The server shows its purpose.
func (c *Client) Dedicated(ctx context.Context, purpose string) (*Conn, error) {
	cfg := c.cfg
	cfg.Application += " " + purpose
	return c.dial(ctx, &cfg, new(backendurl.Unreached))
}

// Drop closes a connection that Dedicated opened.
func (c *Client) Drop(conn *Conn) {
	c.mu.Lock()
	delete(c.conns, conn)
	c.mu.Unlock()
	conn.Close()
}

// take returns the connection that is kept, or a new one, to a host that has not failed the request.
func (c *Client) take(ctx context.Context, failed *backendurl.Unreached) (*Conn, error) {
	host, _ := c.hosts.Next(failed)
	c.mu.Lock()
	if conn := c.idle; conn != nil && conn.Addr() == host {
		c.idle = nil
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	return c.dial(ctx, &c.cfg, failed)
}

// dial opens a connection to the current host, or else to the next that can be reached, of those that have not failed. As
// long as there are others, a host that is silent gets its share of the time. If no host was connected to, the error is failed.
func (c *Client) dial(ctx context.Context, cfg *Config, failed *backendurl.Unreached) (*Conn, error) {
	for {
		addr, left := c.hosts.Next(failed)
		if left == 0 {
			return nil, failed
		}
		conn, err := c.dialOne(ctx, cfg, addr, left)
		if err == nil || errors.Is(err, errClosed) {
			return conn, err
		}
		failed.Failed(addr, err)
		if ctx.Err() != nil {
			return nil, failed
		}
		c.moveOn(addr)
	}
}

func (c *Client) dialOne(ctx context.Context, cfg *Config, addr string, left int) (*Conn, error) {
	if c.life.Err() != nil {
		return nil, errClosed
	}
	if end, limited := ctx.Deadline(); limited && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	if cfg.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.ConnectTimeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	conn, err := c.open(ctx, cfg, addr)
	if err != nil {
		return nil, err
	}
	if len(c.cfg.Addrs) > 1 && conn.Parameter("in_hot_standby") == "on" {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", addr, ErrStandby)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, errClosed
	}
	c.conns[conn] = true
	return conn, nil
}

// put keeps a connection for the next request, or closes it. It does not wait for the server.
func (c *Client) put(conn *Conn) {
	c.mu.Lock()
	if !conn.Broken() && !c.closed && c.idle == nil && c.conns[conn] && conn.Addr() == c.hosts.Current() {
		c.idle = conn
		c.mu.Unlock()
		return
	}
	delete(c.conns, conn)
	if conn.orphaned() && !c.closed {
		c.leaving.Go(func() {
			defer panics.Catch()
			c.leave(conn)
		})
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	conn.Close()
}

// moveOn makes the next host the current one, and closes the connection that is kept, if nobody else has done so.
func (c *Client) moveOn(addr string) {
	if !c.hosts.Leave(addr) {
		return
	}
	var stale *Conn
	c.mu.Lock()
	if c.idle != nil && c.idle.Addr() == addr {
		stale, c.idle = c.idle, nil
		delete(c.conns, stale)
	}
	c.mu.Unlock()
	if stale != nil {
		stale.Close()
	}
}

// RotateEndpoint makes the next request go to the next host; where there is only one, over a new connection. Requests that
// are on their way go on.
func (c *Client) RotateEndpoint() { c.moveOn(c.hosts.Current()) }

// Close closes all connections, which ends the requests that are on their way. It waits until the server has heard of those
// whose context ended before and that are cancelled, for CancelLimit at most.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed, c.idle = true, nil
	conns := c.conns
	c.conns = map[*Conn]bool{}
	c.mu.Unlock()
	c.endLife()
	for conn := range conns {
		conn.Close()
	}
	c.leaving.Wait()
	return nil
}
