package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

const (
	long = backendurl.DefaultLongestTTL // a TTL that does not run out during a test
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

// TestForgetting: whatever is lost, the next holder comes only when the old one's life is over. What any store may lose the suite has.
func TestForgetting(t *testing.T) {
	t.Parallel()
	const ttl, longest = time.Second, 3 * time.Second
	cases := []struct {
		name   string
		forget func(t *testing.T, s *servers.RedisServer, job string)
		want   backends.Verdict
		wait   time.Duration // at least, from the last renewal
	}{
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
			g, _ := granted(t, d, claim("job", ttl))
			renewed := time.Now()
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
			next, verdicts := granted(t, other, claim("job", ttl))
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

// TestSilence: a call with everything dropped ends with its context, and the next one goes out on a fresh connection.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	p := servers.NewProxy(t, s.Addr())
	d := open(t, "redis://"+p.Addr())
	g, _ := granted(t, d, claim("job", long))
	p.DropAll(true)
	_, err := d.Renew(within(t, 50*time.Millisecond), g)
	suite.On(t).WantUnknown("a renewal that is dropped", err)
	p.DropAll(false)
	if _, err := d.Renew(within(t, suite.Patience), g); err != nil {
		t.Errorf("on a fresh connection: %v", err)
	}
}

// TestReplyOfAnother: a reply that belongs to another request grants nothing (CVE-2025-29923).
func TestReplyOfAnother(t *testing.T) {
	t.Parallel()
	addr, _ := servers.RedisByHand(t, func(w []string, _ int) string { // right in all but whom it answers
		if w[0] == "hello" {
			return "-ERR unknown command\r\n"
		}
		return "*14\r\n+another\r\n+state\r\n+0\r\n+1790000000000\r\n+b|7\r\n+1000\r\n*0\r\n*0\r\n+a:b\r\n+7.0.15\r\n+9\r\n+0\r\n+-1\r\n+\r\n"
	})
	if got, err := open(t, "redis://"+addr).Acquire(within(t, suite.Patience), claim("job", long)); !errors.Is(err, errReply) {
		t.Errorf("claim answered with the reply to another request: %+v, %v", got, err)
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
