// Package redisconn opens connections to Redis on which no reply can break the client library: one that announces or sends
// more than any answer to us has, or whose framing makes no sense, ends the connection before the library sees it.
// go-redis allocates what a reply's lengths announce, and panics where that is more than there can be.
package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// DialTimeout is how long a connection may take to come about, without TLS.
const DialTimeout = 5 * time.Second

// Dial opens one connection to a server of t, with TLS where its URL asks for it, before ctx ends. Its Read fails with
// ErrRefused, and then for good, where a reply is beyond what this package allows. It is what a goredis.Options.Dialer does.
func Dial(ctx context.Context, t *redisurl.Target, network, addr string) (net.Conn, error) {
	return dial(ctx, t, network, addr, frames{})
}

// DialCluster is Dial of a connection on which a Cluster is asked for its slots: a reply may be several times as large. Some 100 MB
// is what such a reply may take in memory, so a process has few of them at a time.
func DialCluster(ctx context.Context, t *redisurl.Target, network, addr string) (net.Conn, error) {
	return dial(ctx, t, network, addr, frames{cluster: true})
}

func dial(ctx context.Context, t *redisurl.Target, network, addr string, replies frames) (net.Conn, error) {
	d := &net.Dialer{Timeout: DialTimeout, KeepAlive: 15 * time.Second}
	if t.TLS == nil {
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return bound(c, replies), nil
	}
	config := t.TLS.Clone()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	c, err := (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, backendurl.Opening(err, true, "a Redis")
	}
	return bound(c, replies), nil
}

// bound returns c with bounded replies.
func bound(c net.Conn, replies frames) net.Conn {
	b := &conn{Conn: c, replies: replies}
	if raw, ok := c.(syscall.Conn); ok {
		return &socket{b, raw}
	}
	return b
}

// conn is a connection with bounded replies. One goroutine may read while another one writes, as go-redis does.
type conn struct {
	net.Conn
	replies frames
	refused error
}

// socket is a conn that go-redis may ask whether the server has closed it, as the bare connection can be.
type socket struct {
	*conn
	syscall.Conn
}

// Read implements net.Conn. What comes before the refused byte is handed over.
func (c *conn) Read(p []byte) (int, error) {
	if c.refused != nil {
		return 0, c.refused
	}
	n, err := c.Conn.Read(p)
	n, c.refused = c.replies.pass(p[:n])
	if c.refused != nil {
		_ = c.Close() // nothing more is sent on it, and what the server still sends is not kept
		return n, c.refused
	}
	return n, err
}
