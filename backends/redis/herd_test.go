package redis

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestManyHostsAtOneTick: a thousand hosts claim a tick at once, and all but the one that has it take their claim back. A conflict costs no
// read of its own, and those who take a claim back do not stand in each other's way: two round trips are the most of either
// (docs/design/benchmarks.md).
func TestManyHostsAtOneTick(t *testing.T) {
	t.Parallel()
	const hosts = 1000
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	d := open(t, "redis://"+s.Addr())
	g, _ := granted(t, d, claim("warm", long))
	finish(t, d, g)
	claims := make([]backends.Claim, hosts)
	for i := range claims {
		claims[i] = claim("job", long)
		claims[i].Tick = 60
	}
	var mu sync.Mutex
	var grants []backends.Grant
	steps := func(name string, step func(c backends.Claim) error) {
		calls, in, out := traffic(t, s)
		var all sync.WaitGroup
		for _, c := range claims {
			all.Go(func() {
				if err := step(c); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		c, i, o := traffic(t, s)
		t.Logf("%s: %d round trips, %d bytes to the server, %d bytes from it", name, c-calls, i-in, o-out)
		if most := 2 * int64(hosts); c-calls > most {
			t.Errorf("%s: %d round trips, want at most %d", name, c-calls, most)
		}
	}
	steps("claims", func(c backends.Claim) error {
		g, err := d.Acquire(within(t, suite.Patience), c)
		if _, refused := errors.AsType[*backends.Refusal](err); refused {
			return nil
		}
		if err == nil {
			mu.Lock()
			grants = append(grants, g)
			mu.Unlock()
		}
		return err
	})
	if len(grants) != 1 {
		t.Fatalf("%d grants", len(grants))
	}
	steps("claims taken back", func(c backends.Claim) error {
		if c.Holder.ID == grants[0].Claim.Holder.ID {
			return nil
		}
		return d.Abandon(within(t, suite.Patience), c)
	})
	status, err := d.Inspect(within(t, suite.Patience), "job")
	if n := len(status.Record.Refused); err != nil || n != backends.KeptAbandoned {
		t.Errorf("%d are remembered, %v", n, err)
	}
}

// traffic is what a server has done: calls of scripts, and bytes that it read and wrote.
func traffic(t *testing.T, s *servers.RedisServer) (calls, in, out int64) {
	t.Helper()
	for line := range strings.Lines(fmt.Sprint(s.Do(t, "info", "everything"))) {
		_, _ = fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &calls)
		_, _ = fmt.Sscanf(line, "total_net_input_bytes:%d", &in)
		_, _ = fmt.Sscanf(line, "total_net_output_bytes:%d", &out)
	}
	return calls, in, out
}
