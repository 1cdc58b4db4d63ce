package wire

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
)

func client(t *testing.T, cfg Config) *Client {
	t.Helper()
	c := NewClient(cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// hosts is one database that is on all these hosts.
func hosts(configs ...Config) Config {
	cfg := configs[0]
	cfg.Addrs = nil
	for _, c := range configs {
		cfg.Addrs = append(cfg.Addrs, c.Addrs...)
	}
	return cfg
}

// answering is a server that answers, and counts what it is asked.
func answering(t *testing.T, asked *atomic.Int64, parameters ...string) Config {
	t.Helper()
	return fake(t, func(conn net.Conn) {
		read(conn)
		send(conn, slices.Concat([]string{welcome}, parameters, []string{process, ready})...)
		for len(read(conn)) > 5 { // not the goodbye
			asked.Add(1)
			send(conn, parsed, bound, cell, complete, ready)
		}
	})
}

// TestHosts: one that cannot be reached, or only follows, is passed over without anything being sent to it, and the one
// that serves is asked from then on.
func TestHosts(t *testing.T) {
	t.Parallel()
	dead := fake(t, func(net.Conn) {})
	var standby, primary atomic.Int64
	c := client(t, hosts(dead, answering(t, &standby, "Sin_hot_standby\x00on\x00"), answering(t, &primary, "Sin_hot_standby\x00off\x00")))
	for range 3 {
		if _, err := c.Ask(within(t), one, nil); err != nil {
			t.Fatal(err)
		}
	}
	if standby.Load() != 0 || primary.Load() != 3 {
		t.Errorf("the standby was asked %d times, the primary %d times", standby.Load(), primary.Load())
	}
}

// TestHostThatTellsLater: an old server, or one behind a pooler, is known for a standby only by what it answers.
func TestHostThatTellsLater(t *testing.T) {
	t.Parallel()
	var standby, primary atomic.Int64
	c := client(t, hosts(answering(t, &standby), answering(t, &primary)))
	check := func(Reply) error {
		if primary.Load() == 0 {
			return ErrStandby
		}
		return nil
	}
	if _, err := c.Ask(within(t), one, check); err != nil || standby.Load() != 1 || primary.Load() != 1 {
		t.Errorf("%v: the standby was asked %d times, the primary %d times", err, standby.Load(), primary.Load())
	}
}

// TestReadOnlyHost: what it refuses was not done, and is asked of the next one.
func TestReadOnlyHost(t *testing.T) {
	t.Parallel()
	var primary atomic.Int64
	readOnly := fake(t, func(conn net.Conn) {
		greet(conn)
		read(conn)
		send(conn, "ESERROR\x00VERROR\x00C25006\x00Mcannot execute UPDATE in a read-only transaction\x00\x00", ready)
		read(conn)
	})
	c := client(t, hosts(readOnly, answering(t, &primary)))
	if _, err := c.Ask(within(t), one, nil); err != nil || primary.Load() != 1 {
		t.Errorf("%v: the primary was asked %d times", err, primary.Load())
	}
}

// TestNothingIsRepeated: a request whose reply is lost is not sent again, to nobody.
func TestNothingIsRepeated(t *testing.T) {
	t.Parallel()
	var lost, other atomic.Int64
	silent := fake(t, func(conn net.Conn) {
		greet(conn)
		if len(read(conn)) > 5 {
			lost.Add(1)
		}
	})
	c := client(t, hosts(silent, answering(t, &other)))
	if _, err := c.Ask(within(t), one, nil); err == nil {
		t.Error("a lost reply is an answer")
	}
	if lost.Load() != 1 || other.Load() != 0 {
		t.Errorf("sent %d times to the first host and %d times to the second", lost.Load(), other.Load())
	}
	if _, err := c.Ask(within(t), one, nil); err != nil || other.Load() != 1 {
		t.Errorf("the next request: %v, %d", err, other.Load())
	}
}

// TestEachHostOnce: hazard: while other requests go from host to host, one asks a host twice and the primary never.
func TestEachHostOnce(t *testing.T) {
	t.Parallel()
	var primary atomic.Int64
	serves := answering(t, &primary)
	cfg := hosts(serves, serves, serves)
	cfg.Addrs[0], cfg.Addrs[1] = "dead:1", "dead:2"
	c := client(t, cfg)
	var dialed []string
	open := c.open
	c.open = func(ctx context.Context, cfg *Config, addr string) (*Conn, error) {
		dialed = append(dialed, addr)
		if addr == serves.Addrs[0] || len(dialed) > len(c.cfg.Addrs) {
			return open(ctx, cfg, serves.Addrs[0])
		}
		for _, others := range cfg.Addrs { // find all of them dead
			c.moveOn(others)
		}
		return nil, errors.New("dead")
	}
	if _, err := c.Ask(within(t), one, nil); err != nil || !slices.Equal(dialed, cfg.Addrs) {
		t.Errorf("%v: dialed %v, want %v", err, dialed, cfg.Addrs)
	}
}

// TestStandbyIsAskedOnce: where the other host cannot be reached the standby is not asked again, however it says what it is, and the
// error tells of both.
func TestStandbyIsAskedOnce(t *testing.T) {
	t.Parallel()
	for _, parameters := range [][]string{nil, {"Sin_hot_standby\x00on\x00"}} {
		var standby atomic.Int64
		c := client(t, hosts(answering(t, &standby, parameters...), fake(t, func(net.Conn) {})))
		_, err := c.Ask(within(t), one, func(Reply) error { return ErrStandby })
		u, ok := errors.AsType[*backendurl.Unreached](err)
		if !ok || len(u.Unwrap()) != 2 || !errors.Is(err, ErrStandby) || standby.Load() != int64(1-len(parameters)) {
			t.Errorf("%v: asked %d times", err, standby.Load())
		}
	}
}

// TestSilentHost: a host that accepts and says nothing gets its share of the time, no more.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.SharedPostgres(t)
	p := servers.NewProxy(t, s.Addr())
	p.DropAll(true)
	cfg := configOf(t, s)
	cfg.Addrs = []string{p.Addr(), s.Addr()}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // of which the silent host gets the half
	defer cancel()
	if _, err := client(t, cfg).Ask(ctx, one, nil); err != nil {
		t.Error(err)
	}
}
