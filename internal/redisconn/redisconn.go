// Package redisconn opens connections to Redis on which no reply can break the client library: one that announces or sends
// more than any answer to us has, or whose framing makes no sense, ends the connection before the library sees it.
// go-redis allocates what a reply's lengths announce, and panics where that is more than there can be. It also has the options with
// which the library does nothing by itself.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
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
	c, err := (&tls.Dialer{NetDialer: d, Config: t.TLS}).DialContext(ctx, network, addr)
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
	begun   bool // something was read
	refused error
}

// farewells begin what a server says, unasked, on a connection that it closes at once. They are read only.
var farewells = []string{"-DENIED ", "-ERR max number of clients reached"}

// farewell is an error that is what a server says as it closes a new connection, nil if it says nothing of that kind. For go-redis it
// would be the answer to a HELLO that the server does not know: it would go on, and only find the connection broken.
func farewell(p []byte) error {
	text := string(p)
	if !slices.ContainsFunc(farewells, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		return nil
	}
	line, _, _ := strings.Cut(text[1:], "\r\n")
	sentence, _, _ := strings.Cut(line, ". ")
	return errors.New(sentence)
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
	if n > 0 && !c.begun {
		c.begun = true
		if c.refused = farewell(p[:n]); c.refused != nil {
			_ = c.Close()
			return 0, c.refused
		}
	}
	n, c.refused = c.replies.pass(p[:n])
	if c.refused != nil {
		_ = c.Close() // nothing more is sent on it, and what the server still sends is not kept
		return n, c.refused
	}
	return n, err
}
