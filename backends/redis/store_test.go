package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

const (
	long = 20 * time.Second // a TTL that does not run out during a test
)

func claim(job string, ttl time.Duration) backends.Claim {
	c := suite.NewClaim(job, ttl)
	c.Trigger = backends.Trigger{OnLost: backends.Skip, MaxAttempts: 1}
	return c
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// granted claims until the job is granted, as long as the store is busy or away, and returns the verdicts on the way.
func granted(t *testing.T, d *backends.Engine, c backends.Claim) (backends.Grant, []backends.Verdict) {
	t.Helper()
	return suite.On(t).Insist(d, c, 2*time.Second)
}

func refused(t testing.TB, d *backends.Engine, c backends.Claim) *backends.Refusal {
	t.Helper()
	g, err := d.Acquire(within(t, suite.Patience), c)
	r, ok := errors.AsType[*backends.Refusal](err)
	if !ok {
		t.Fatalf("granted %d, error %v; want a refusal", g.Token, err)
	}
	return r
}

func finish(t testing.TB, d *backends.Engine, g backends.Grant) {
	t.Helper()
	if err := d.Finish(within(t, suite.Patience), g, backends.Outcome{State: backends.Done}); err != nil {
		t.Fatal(err)
	}
}

// TestForgetting: whatever is lost, the next holder comes only when the old one's life is over.
func TestForgetting(t *testing.T) {
	t.Parallel()
	const ttl, longest = time.Second, 3 * time.Second
	cases := []struct {
		name   string
		forget func(t *testing.T, s *servers.RedisServer, job string)
		want   backends.Verdict
		wait   time.Duration // at least, from the last renewal
	}{
		{"flushed", func(t *testing.T, s *servers.RedisServer, _ string) { s.Do(t, "flushall") }, backends.Quarantined, longest},
		{"flushed, statistics reset", func(t *testing.T, s *servers.RedisServer, _ string) {
			s.Do(t, "flushall")
			s.Do(t, "config", "resetstat")
		}, backends.Quarantined, longest},
		{"lease and record deleted", func(t *testing.T, s *servers.RedisServer, job string) {
			lease, record, mark := keys(job)
			s.Do(t, "del", lease, record)
			s.Do(t, "hset", mark, "identity", "another server")
			s.Do(t, "config", "resetstat")
		}, backends.Quarantined, longest},
		{"lease deleted", func(t *testing.T, s *servers.RedisServer, job string) {
			lease, _, _ := keys(job)
			s.Do(t, "del", lease)
		}, backends.Vanished, ttl},
		{"lease and mark deleted", func(t *testing.T, s *servers.RedisServer, job string) {
			lease, _, mark := keys(job)
			s.Do(t, "del", lease, mark)
		}, backends.Quarantined, longest},
		{"restarted with data", func(t *testing.T, s *servers.RedisServer, job string) {
			lease, _, _ := keys(job)
			s.Restart(t, true)
			s.Do(t, "del", lease)
		}, backends.Quarantined, ttl},
		{"evicted", func(t *testing.T, s *servers.RedisServer, job string) {
			lease, record, mark := keys(job)
			s.Do(t, "set", "filler", strings.Repeat("x", 1<<20))
			s.Do(t, "config", "set", "maxmemory-policy", "allkeys-random", "maxmemory", "1")
			servers.Eventually(t, "all is evicted", func() bool {
				_, _ = s.Try("set", "x", "y") // evicts, and is refused
				return s.Do(t, "exists", lease, record, mark) == int64(0)
			})
			s.Do(t, "config", "set", "maxmemory", "0")
		}, backends.Quarantined, longest},
		{"lease and record evicted, the mark not", func(t *testing.T, s *servers.RedisServer, job string) {
			lease, record, _ := keys(job)
			s.Do(t, "set", "filler", strings.Repeat("x", 1<<20), "ex", "1000")
			s.Do(t, "config", "set", "maxmemory-policy", "volatile-random", "maxmemory", "1")
			servers.Eventually(t, "the lease is evicted", func() bool {
				_, _ = s.Try("set", "x", "y") // evicts, and is refused
				return s.Do(t, "exists", lease) == int64(0)
			})
			s.Do(t, "config", "set", "maxmemory", "0")
			s.Do(t, "del", record) // by chance, evicting from all keys would take the mark too
		}, backends.Quarantined, longest},
		{"all deleted by hand", func(t *testing.T, s *servers.RedisServer, job string) {
			lease, record, mark := keys(job)
			s.Do(t, "del", lease, record, mark)
		}, "", 0},
		{"restarted empty", func(t *testing.T, s *servers.RedisServer, _ string) { s.Restart(t, false) }, backends.Quarantined, longest},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
			trust(t, s)
			// A server that has just started would wait anyway.
			servers.Eventually(t, "the server is up for long", func() bool {
				up, err := strconv.Atoi(s.Info(t, "server", "uptime_in_seconds"))
				return err == nil && up >= 5
			})
			d, other := open(t, "redis://"+s.Addr()+"?longest-ttl=3s"), open(t, "redis://"+s.Addr()+"?longest-ttl=3s")
			var g, next backends.Grant
			var renewed time.Time
			var verdicts []backends.Verdict
			for asked := false; !asked; {
				g, _ = granted(t, d, claim("job", ttl))
				renewed = time.Now()
				_, err := d.Renew(within(t, suite.Patience), g)
				for errors.Is(err, backends.ErrLost) { // this machine is so busy that the lease was over
					g, _ = granted(t, d, claim("job", ttl))
					renewed = time.Now()
					_, err = d.Renew(within(t, suite.Patience), g)
				}
				if err != nil {
					t.Fatal(err)
				}
				c.forget(t, s, "job")
				next, verdicts = granted(t, other, claim("job", ttl))
				// Who comes when that lease would be over anyway, as this machine is so busy, shows nothing.
				if asked = c.want != backends.Vanished || len(verdicts) > 0 || time.Since(renewed) < ttl; !asked {
					finish(t, other, next)
				}
			}
			if c.want == "" && len(verdicts) == 0 { // an operator who deletes all three by hand is not noticed
				return
			}
			if !slices.Contains(verdicts, c.want) || slices.Contains(verdicts, backends.Held) {
				t.Errorf("verdicts %v, want %s", verdicts, c.want)
			}
			if waited := time.Since(renewed); waited < c.wait-20*time.Millisecond {
				t.Errorf("granted %v after the renewal, want %v at least", waited, c.wait)
			}
			if next.Token <= g.Token {
				t.Errorf("token %d after %d", next.Token, g.Token)
			}
			if _, err := d.Renew(within(t, suite.Patience), g); !errors.Is(err, backends.ErrLost) {
				t.Errorf("renewal of the old holder: %v", err)
			}
		})
	}
}

// TestAnotherServerInItsPlace: a virtual IP moves to a server that has been up for long and never had a mark. A client that knew the one
// before does not take that for a store that was never used, and others learn it from the mark that it writes.
func TestAnotherServerInItsPlace(t *testing.T) {
	t.Parallel()
	was, is := servers.Redis(t, servers.RedisOptions{}), servers.Redis(t, servers.RedisOptions{})
	trust(t, was)
	servers.Eventually(t, "the server is up for long", func() bool {
		up, err := strconv.Atoi(is.Info(t, "server", "uptime_in_seconds"))
		return err == nil && up >= 5
	})
	const query = "?longest-ttl=3s"
	granted(t, open(t, "redis://"+was.Addr()+query), claim("job", 3*time.Second))
	s, d := openStore(t, "redis://"+was.Addr()+query)
	r := suite.On(t)
	r.Refused(d, claim("job", time.Second), backends.Held)

	other, _ := openStore(t, "redis://"+is.Addr()+query)
	s.mu.Lock()
	s.cfg.Addrs, s.pool = other.cfg.Addrs, nil // what a connection to the same name leads to from now on
	s.mu.Unlock()
	r.Refused(d, claim("job", time.Second), backends.Quarantined)
	r.Refused(open(t, "redis://"+is.Addr()+query), claim("job", time.Second), backends.Quarantined)
}

// meddling is a store in which something happens between what is read and what is written on it.
type meddling struct {
	*store
	before func()
}

type meddlingTx struct {
	backends.Tx
	before func()
}

func (m *meddling) Begin(ctx context.Context, q backends.Request) backends.Tx {
	return meddlingTx{m.store.Begin(ctx, q), m.before}
}

func (m meddlingTx) Swap(ctx context.Context, s backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	m.before()
	return m.Tx.Swap(ctx, s, w)
}

// TestLostReplies: a request that was applied and not answered is applied once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	p := servers.NewProxy(t, s.Addr())
	client, _ := openStore(t, "redis://"+p.Addr())
	losing := false
	d := backends.NewEngine(&meddling{client, func() { p.DropReplies(losing) }}) // that to what writes, not that to what reads
	direct := open(t, "redis://"+s.Addr())
	// reaches says whether the server was asked within the limit.
	reaches := func(what string, limit time.Duration, f func(context.Context) error) bool {
		t.Helper()
		if _, err := d.Inspect(within(t, suite.Patience), "warm"); err != nil { // a connection that is set up
			t.Fatal(err)
		}
		losing = true
		defer func() { losing = false; p.DropReplies(false) }()
		before := p.Dropped()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err := f(ctx)
		if _, refused := errors.AsType[*backends.Refusal](err); err == nil || refused || errors.Is(err, backends.ErrLost) || backends.IsPermanent(err) {
			t.Errorf("%s with its reply lost: %v, want an unknown outcome", what, err)
		}
		return p.Dropped() > before
	}
	lost := func(what string, f func(context.Context) error) {
		t.Helper()
		for limit := 300 * time.Millisecond; !reaches(what, limit, f); limit *= 2 { // this machine is busy
			if limit > suite.Patience {
				t.Fatalf("%s does not reach the server within %v", what, limit)
			}
		}
	}
	first, _ := granted(t, d, claim("warm", long))
	finish(t, d, first)
	c := claim("job", long)
	lost("claim", func(ctx context.Context) error { _, err := d.Acquire(ctx, c); return err })
	before, err := direct.Inspect(within(t, suite.Patience), "job")
	if err != nil {
		t.Fatal(err)
	}
	g, _ := granted(t, d, c)
	if g.Token != before.Record.Token || before.Lease == nil || len(before.Record.Runs) != 1 {
		t.Errorf("asked again: token %d, record %+v", g.Token, before.Record)
	}
	lost("renewal", func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err })
	lost("finish", func(ctx context.Context) error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) })
	next, _ := granted(t, direct, claim("job", long))
	finish(t, d, g) // its reply was lost; somebody else was granted since
	status, err := direct.Inspect(within(t, suite.Patience), "job")
	if err != nil || status.Lease == nil || status.Lease.Token != next.Token {
		t.Errorf("finishing again touched the newer lease: %+v, %v", status.Lease, err)
	}
}

// TestClientAsksOnce: a request whose connection breaks before the answer is not sent again by the client. Whoever asks
// again has to know when the first one was sent (go-redis retries by default, and so did express-rate-limit#251).
func TestClientAsksOnce(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	p := servers.NewProxy(t, s.Addr())
	d := open(t, "redis://"+p.Addr())
	var g backends.Grant
	c := claim("job", long)
	ask := map[string]func() error{
		"claim":   func() error { _, err := d.Acquire(within(t, suite.Patience), c); return err },
		"renewal": func() error { _, err := d.Renew(within(t, suite.Patience), g); return err },
		"finish": func() error {
			return d.Finish(within(t, suite.Patience), g, backends.Outcome{State: backends.Done})
		},
	}
	other, _ := granted(t, d, claim("other", long)) // the scripts are known
	if _, err := d.Renew(within(t, suite.Patience), other); err != nil {
		t.Fatal(err)
	}
	finish(t, d, other)
	for _, step := range []string{"claim", "renewal", "finish"} {
		if _, err := d.Inspect(within(t, suite.Patience), "other"); err != nil { // a connection that is set up
			t.Fatal(err)
		}
		p.CutReplies(true)
		before := scripts(t, s)
		if err := ask[step](); err == nil {
			t.Errorf("%s: no error without an answer", step)
		}
		if n := scripts(t, s) - before; n != 1 {
			t.Errorf("%s: Redis was asked %d times, want once", step, n)
		}
		p.CutReplies(false)
		if step == "claim" {
			g, _ = granted(t, d, c)
		}
	}
}

// scripts counts the scripts that a server has run.
func scripts(t *testing.T, s *servers.RedisServer) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(s.Info(t, "commandstats", "cmdstat_evalsha"), "calls=%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSilence: with everything dropped, or the server frozen, each call returns when its context ends, and
// the next goes out on a fresh connection.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	p := servers.NewProxy(t, s.Addr())
	d := open(t, "redis://"+p.Addr())
	g, _ := granted(t, d, claim("job", long))
	calls := map[string]func(context.Context) error{
		"claim":   func(ctx context.Context) error { _, err := d.Acquire(ctx, claim("other", long)); return err },
		"renew":   func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err },
		"finish":  func(ctx context.Context) error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) },
		"abandon": func(ctx context.Context) error { return d.Abandon(ctx, claim("other", long)) },
		"inspect": func(ctx context.Context) error { _, err := d.Inspect(ctx, "job"); return err },
		"order":   func(ctx context.Context) error { return d.Order(ctx, suite.NewOrder(backends.Stop, g)) },
		"jobs":    func(ctx context.Context) error { _, err := d.Jobs(ctx); return err },
	}
	silent := func(t *testing.T) {
		for name, call := range calls {
			for _, cancelled := range []bool{false, true} {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				if cancelled {
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				done := make(chan error, 1)
				go func() { done <- call(ctx) }()
				select {
				case err := <-done:
					if err == nil || backends.IsPermanent(err) || errors.Is(err, backends.ErrLost) {
						t.Errorf("%s: %v, want an unknown outcome", name, err)
					}
				case <-time.After(suite.Patience):
					t.Errorf("%s does not return", name)
				}
				cancel()
			}
		}
	}
	p.DropAll(true)
	silent(t)
	p.DropAll(false)
	if _, err := d.Renew(within(t, suite.Patience), g); err != nil {
		t.Errorf("on a fresh connection: %v", err)
	}
	s.Stop(t)
	silent(t)
	s.Cont(t)
}

// TestRoundTrips: on an open connection a claim is two round trips, and a renewal or an end is one.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	p := servers.NewProxy(t, s.Addr())
	d := open(t, "redis://"+p.Addr())
	run := func() (trips []int) {
		last := p.Trips()
		note := func() { now := p.Trips(); trips = append(trips, now-last); last = now }
		g, _ := granted(t, d, claim("job", long))
		note()
		if _, err := d.Renew(within(t, suite.Patience), g); err != nil {
			t.Fatal(err)
		}
		note()
		refused(t, d, claim("job", long))
		note()
		finish(t, d, g)
		note()
		return trips
	}
	if first := run(); first[0] > 6 { // HELLO; EVALSHA and EVAL for each of two scripts; a mark
		t.Errorf("round trips of the first claim: %v", first)
	}
	if trips := run(); !slices.Equal(trips, []int{2, 1, 1, 1}) {
		t.Errorf("round trips of claim, renewal, refused claim and finish: %v", trips)
	}
}

// TestEndIsDatedByItsOwnTime: hazard: an end that is written without a read before has the time of what was known.
func TestEndIsDatedByItsOwnTime(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	d := open(t, "redis://"+s.Addr())
	g, _ := granted(t, d, claim("job", long))
	const lasted = 50 * time.Millisecond
	time.Sleep(2 * lasted)
	finish(t, d, g)
	is, err := d.Inspect(within(t, suite.Patience), "job")
	if err != nil || is.Record.Ended-is.Record.Granted < lasted.Milliseconds() {
		t.Errorf("granted at %d, ended at %d, %v", is.Record.Granted, is.Record.Ended, err)
	}
}

// TestReplyOfAnother: a reply that belongs to another request grants nothing (CVE-2025-29923).
func TestReplyOfAnother(t *testing.T) {
	t.Parallel()
	c := claim("job", long)
	// A server whose answer is right in all but whom it answers.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerAnother(conn)
		}
	}()
	d := open(t, "redis://"+l.Addr().String())
	if got, err := d.Acquire(within(t, suite.Patience), c); !errors.Is(err, errReply) {
		t.Errorf("claim answered with the reply to another request: %+v, %v", got, err)
	}
}

// answerAnother is a server that shows a lease to a request that was not asked.
func answerAnother(conn net.Conn) {
	b := make([]byte, 1<<16)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		if strings.Contains(strings.ToLower(string(b[:n])), "hello") {
			_, _ = fmt.Fprint(conn, "-ERR unknown command\r\n")
			continue
		}
		_, _ = fmt.Fprint(conn, "*14\r\n+another\r\n+state\r\n+0\r\n+1790000000000\r\n+b|7\r\n+1000\r\n*0\r\n*0\r\n+a:b\r\n+7.0.15\r\n+9\r\n+0\r\n+-1\r\n+\r\n")
	}
}

func BenchmarkSteps(b *testing.B) {
	s := servers.Redis(b, servers.RedisOptions{})
	trust(b, s)
	client, d := openStore(b, "redis://"+s.Addr())
	// The bare client with one PING is the floor.
	c := goredis.NewClient(client.cfg.options(s.Addr()))
	defer func() { _ = c.Close() }()
	b.Run("ping", func(b *testing.B) {
		for b.Loop() {
			c.Ping(b.Context())
		}
	})
	b.Run("renew", func(b *testing.B) {
		g, err := d.Acquire(b.Context(), claim("renew", long))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := d.Renew(b.Context(), g); err != nil {
				b.Fatal(err)
			}
		}
		finish(b, d, g)
	})
	b.Run("acquire and finish", func(b *testing.B) {
		for b.Loop() {
			g, err := d.Acquire(b.Context(), claim("run", long))
			if err != nil {
				b.Fatal(err)
			}
			finish(b, d, g)
		}
	})
}
