package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

const (
	forever    = "SELECT pg_sleep(3600)"
	cancelling = "\x00\x00\x00\x10\x04\xd2\x16\x2e" // how a CancelRequest begins
)

var cancelled = []Statement{{SQL: "SELECT 'x'", Cancel: true}}

// patient is configOf for a machine on which a server may take its time to hear of something.
func patient(t *testing.T, s *servers.PostgresServer) Config {
	t.Helper()
	cfg := configOf(t, s)
	cfg.CancelLimit = enough
	return cfg
}

// running waits until so many processes of a database run a statement.
func running(t *testing.T, s *servers.PostgresServer, n, statement string) {
	t.Helper()
	servers.Eventually(t, n+" run "+statement, func() bool {
		return s.Do(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query = "+quote(statement)) == n
	})
}

// interrupted begins a batch that lasts forever, and stops to wait for it when the server has begun too.
func interrupted(t *testing.T, s *servers.PostgresServer, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		_, err := c.Ask(ctx, []Statement{{SQL: forever, Cancel: true}}, nil)
		done <- err
	}()
	running(t, s, "1", forever)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// TestNobodyWaits: what nobody waits for any more is ended on the server too, which is told by a connection that is as
// encrypted as the first one, and by a pooler.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	for name, options := range map[string]servers.PostgresOptions{"plain": {}, "TLS": {TLS: certs, ClientCert: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servers.Postgres(t, options)
			said := new(tap)
			cfg := patient(t, s)
			cfg.Addrs = []string{said.before(t, s.Addr())}
			if options.TLS != nil {
				cfg.Security, cfg.TLS = Must, certs.Client()
			}
			c := client(t, cfg)
			interrupted(t, s, c)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			running(t, s, "0", forever)
			if bare := said.has([]byte(cancelling)); bare == (options.TLS != nil) {
				t.Errorf("the request is sent in clear: %v", bare)
			}
		})
	}
	t.Run("PgBouncer", func(t *testing.T) {
		t.Parallel()
		s := servers.SharedPostgres(t)
		cfg := patient(t, s)
		cfg.Addrs = []string{servers.PgBouncer(t, s).Addr()}
		interrupted(t, s, client(t, cfg))
		running(t, s, "0", forever)
	})
}

// tap remembers what clients say to a server.
type tap struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *tap) has(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.said.Bytes(), b)
}

// before returns the address of a server as it is behind the tap.
func (p *tap) before(t *testing.T, server string) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		to, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer func() { _ = to.Close() }()
		go func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.Copy(conn, to)
		}()
		_, _ = io.Copy(io.MultiWriter(p, to), conn)
	})
}

// listen serves connections, any number at a time. Each is closed when serve returns.
func listen(t *testing.T, serve func(conn net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// deaf is a server that takes a batch, and never answers. What comes by other connections are requests to cancel it.
type deaf struct {
	addr     string
	asked    chan net.Conn // the connection with the batch
	requests chan []byte
	hear     func() // from now on requests are heard, and both connections closed
}

func newDeaf(t *testing.T) *deaf {
	t.Helper()
	heard := make(chan struct{})
	d := &deaf{asked: make(chan net.Conn, 1), requests: make(chan []byte, 1), hear: sync.OnceFunc(func() { close(heard) })}
	var connections atomic.Int64
	d.addr = listen(t, func(conn net.Conn) {
		if connections.Add(1) == 1 {
			greet(conn)
			read(conn)
			d.asked <- conn
		} else {
			d.requests <- read(conn)
		}
		<-heard
	})
	t.Cleanup(d.hear)
	return d
}

func (d *deaf) wantRequest(t *testing.T) {
	t.Helper()
	select {
	case got := <-d.requests:
		if want := cancelling + process[1:]; string(got) != want {
			t.Errorf("the request is %q, want %q", got, want)
		}
	case <-within(t).Done():
		t.Error("no request to cancel comes")
	}
}

// TestCancelIsHeard: who asks does not wait for it. The connection stays open until the server has heard that nobody waits
// any more, or seems not to listen, and Close waits for that.
func TestCancelIsHeard(t *testing.T) {
	t.Parallel()
	for name, hears := range map[string]bool{"a server that hears": true, "one that is silent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDeaf(t)
			cfg := Config{Addrs: []string{s.addr}, CancelLimit: enough}
			if !hears {
				cfg.CancelLimit = 3 * time.Second // for the request: its answer never comes
			}
			c := NewClient(cfg)
			var conn *Conn
			c.open = func(ctx context.Context, cfg *Config, addr string) (_ *Conn, err error) {
				conn, err = Dial(ctx, cfg, addr)
				return conn, err
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { _, err := c.Ask(ctx, cancelled, nil); done <- err }()
			server := <-s.asked
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) { // and nothing was heard yet
				t.Errorf("%v, want %v", err, context.Canceled)
			}
			s.wantRequest(t)
			if hears {
				_ = server.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
				if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v: the connection is closed before the request was heard", err)
				}
				s.hear()
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := conn.raw.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v: the connection is open after Close", err)
			}
		})
	}
}

// TestBrokenConnection: who has lost the connection waits no more than who has given up: the server need not have noticed.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	s := newDeaf(t)
	c := NewClient(Config{Addrs: []string{s.addr}, CancelLimit: enough})
	done := make(chan error, 1)
	go func() { _, err := c.Ask(within(t), cancelled, nil); done <- err }()
	_ = (<-s.asked).Close()
	if err := <-done; err == nil {
		t.Error("an answer")
	}
	s.wantRequest(t)
	s.hear()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
