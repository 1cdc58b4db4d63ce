package hosts

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// unheard is how long nothing has to be heard. A busy machine cannot make it wrong.
const unheard = 200 * time.Millisecond

// line is a TCP connection from host a to host b, with both ends in this process.
type line struct {
	t    *testing.T
	n    *Network
	l    net.Listener
	a, b net.Conn
}

func newLine(t *testing.T) *line {
	t.Helper()
	x := &line{t: t, n: NewNetwork(t, "a", "b")}
	if err := servers.Inside(x.n.Name("b"), func() (err error) {
		x.l, err = net.Listen("tcp", x.n.Address("b")+":80")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.l.Close() })
	x.a, x.b = x.connect()
	return x
}

func (x *line) dial() (conn net.Conn, err error) {
	err = servers.Inside(x.n.Name("a"), func() (err error) {
		conn, err = net.DialTimeout("tcp", x.l.Addr().String(), time.Minute)
		return err
	})
	return conn, err
}

func (x *line) connect() (a, b net.Conn) {
	x.t.Helper()
	a, err := x.dial()
	if err != nil {
		x.t.Fatal(err)
	}
	if b, err = x.l.Accept(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func (x *line) send(from net.Conn) {
	x.t.Helper()
	if _, err := from.Write([]byte("x")); err != nil {
		x.t.Fatal(err)
	}
}

// hear waits for one byte.
func (x *line) hear(to net.Conn) {
	x.t.Helper()
	if err := receive(to, time.Minute); err != nil {
		x.t.Fatal(err)
	}
}

func (x *line) hearNothing(to net.Conn) {
	x.t.Helper()
	if err := receive(to, unheard); !errors.Is(err, os.ErrDeadlineExceeded) {
		x.t.Fatalf("something was heard: %v", err)
	}
}

func receive(to net.Conn, within time.Duration) error {
	_ = to.SetReadDeadline(time.Now().Add(within))
	_, err := io.ReadFull(to, make([]byte, 1))
	return err
}

// done is for what starts and mends a fault.
func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		ways              []Way
		requests, replies bool // are heard
	}{
		{"both ways", []Way{Requests, Replies}, false, false},
		{"requests", []Way{Requests}, false, true},
		{"replies", []Way{Replies}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newLine(t)
			mend, err := x.n.Lose("a", c.ways...)
			done(t, err)
			for _, way := range []struct {
				from, to net.Conn
				heard    bool
			}{{x.a, x.b, c.requests}, {x.b, x.a, c.replies}} {
				x.send(way.from)
				if way.heard {
					x.hear(way.to)
				} else {
					x.hearNothing(way.to)
				}
			}
			done(t, mend())
			if !c.requests {
				x.hear(x.b)
			}
			if !c.replies {
				x.hear(x.a)
			}
		})
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	x := newLine(t)
	mend, err := x.n.Reject("a")
	done(t, err)
	if _, err := x.dial(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v", err)
	}
	x.send(x.a)
	if err := receive(x.a, time.Minute); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an old connection: %v", err)
	}
	done(t, mend())
	x.connect()
}

func TestSilence(t *testing.T) {
	t.Parallel()
	x := newLine(t)
	mend, err := x.n.Silence("a")
	done(t, err)
	x.send(x.a)
	x.hearNothing(x.b)
	x.send(x.b)
	x.hearNothing(x.a)
	a, b := x.connect()
	x.send(a)
	x.hear(b)
	x.send(b)
	x.hear(a)
	done(t, mend())
	x.hear(x.b)
	x.hear(x.a)
}

func TestReset(t *testing.T) {
	t.Parallel()
	x := newLine(t)
	done(t, x.n.Reset("a"))
	if err := receive(x.a, time.Minute); !errors.Is(err, syscall.ECONNABORTED) {
		t.Errorf("this end: %v", err)
	}
	if err := receive(x.b, time.Minute); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other end: %v", err)
	}
	x.connect()
}

func TestDetour(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for _, c := range []struct {
		name  string
		delay func(*Detour, time.Duration) (func() error, error)
		late  func(*line) (from, to net.Conn)
	}{
		{"requests", (*Detour).DelayRequests, func(x *line) (from, to net.Conn) { return x.a, x.b }},
		{"replies", (*Detour).DelayReplies, func(x *line) (from, to net.Conn) { return x.b, x.a }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newLine(t)
			d := x.n.Detour("a")
			from, to := c.late(x)
			mend, err := c.delay(d, never)
			done(t, err)
			if _, err := c.delay(d, never); err == nil {
				t.Error("it is late twice")
			}
			x.send(to) // the other way
			x.hear(from)
			x.send(from)
			x.hearNothing(to)
			x.connect()
			done(t, mend())
			x.hear(to)
			if d.plug != nil {
				t.Error("the detour is still taken")
			}

			const delay = 300 * time.Millisecond
			mend, err = c.delay(d, delay)
			done(t, err)
			began := time.Now()
			x.send(from)
			x.hear(to)
			if took := time.Since(began); took < delay {
				t.Errorf("it was late by %v", took)
			}
			done(t, mend())
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	n := NewNetwork(t, "a", "b")
	n.Resolve("a", "b")
	n.In("a", "grep", "-qx", "nameserver "+n.nameServer(), "/etc/resolv.conf")
	ask := func(ctx context.Context, host, name string) ([]string, error) {
		r := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (conn net.Conn, err error) {
			err = servers.Inside(n.Name(host), func() (err error) {
				conn, err = net.Dial("udp", n.nameServer()+":53")
				return err
			})
			return conn, err
		}}
		return r.LookupHost(ctx, name)
	}
	expect := func(host string) {
		t.Helper()
		if got, err := ask(t.Context(), host, "b.test."); err != nil || !slices.Equal(got, []string{n.Address("b")}) {
			t.Fatalf("%s is told %v, %v", host, got, err)
		}
	}
	expect("a")
	_, err := ask(t.Context(), "a", "nobody.test.")
	if e := new(net.DNSError); !errors.As(err, &e) || !e.IsNotFound {
		t.Errorf("a host that there is not: %v", err)
	}
	mend, err := n.Mute("a")
	done(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error, 1)
	go func() { _, err := ask(ctx, "a", "b.test."); told <- err }()
	servers.Eventually(t, "the question is ignored", func() bool {
		n.names.mu.Lock()
		defer n.names.mu.Unlock()
		return n.names.ignored > 0
	})
	expect("b")
	cancel()
	if err := <-told; err == nil {
		t.Error("the question was answered")
	}
	done(t, mend())
	expect("a")
}
