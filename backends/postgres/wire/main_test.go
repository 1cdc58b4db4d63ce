package wire

import (
	"context"
	"encoding/binary"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// What a client started is gone when it is closed: each test closes its own.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// enough is a time that only a hang exceeds.
var enough = waits.Patience

// within returns a context for a request that is expected to be answered.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	t.Cleanup(cancel)
	return ctx
}

// soon returns a context for a request that is expected to time out.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// configOf says how to connect to a server as its owner.
func configOf(t *testing.T, s *servers.PostgresServer) Config {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return Config{Addrs: []string{s.Addr()}, Login: backendurl.NewLogin(u.User.Username(), password), Database: strings.TrimPrefix(u.Path, "/"), Application: "test"}
}

func dial(t *testing.T, cfg Config) *Conn {
	t.Helper()
	c, err := Dial(within(t), &cfg, cfg.Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fake is a server that does what a test says, one connection at a time. Each connection is closed when serve returns.
func fake(t *testing.T, serve func(conn net.Conn)) Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return Config{Addrs: []string{l.Addr().String()}, Login: backendurl.NewLogin("u", "p"), Database: "d"}
}

// read takes what a client sends, up to n bytes at once.
func read(conn net.Conn) []byte {
	b := make([]byte, 1<<16)
	n, _ := conn.Read(b)
	return b[:n]
}

// send writes messages of a server: a letter and what follows its length.
func send(conn net.Conn, messages ...string) { _, _ = conn.Write(written(messages...)) }

// written is what messages are on the wire.
func written(messages ...string) (b []byte) {
	for _, m := range messages {
		b = binary.BigEndian.AppendUint32(append(b, m[0]), uint32(len(m)+3)) //nolint:gosec // they are short
		b = append(b, m[1:]...)
	}
	return b
}

const (
	welcome  = "R\x00\x00\x00\x00"
	process  = "K\x00\x00\x00\x07\x00\x00\x00\x09"
	ready    = "ZI"
	parsed   = "1"
	bound    = "2"
	complete = "CSELECT 1\x00"
	cell     = "D\x00\x01\x00\x00\x00\x01x"
)

// greet lets a client in.
func greet(conn net.Conn) {
	read(conn)
	send(conn, welcome, process, ready)
}
