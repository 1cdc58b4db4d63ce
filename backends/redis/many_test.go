package redis

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestManyAtOneTick: hazard: of many hosts that claim one tick, or take their claims back, all at once, each writes what all the
// others then have to decide on again. Who is refused asks twice at most, but for the few before whom the first was granted,
// and who takes a claim back asks twice.
func TestManyAtOneTick(t *testing.T) {
	servers.SkipShort(t)
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	const hosts = 200
	drivers := make([]*backends.Engine, 20)
	for i := range drivers {
		drivers[i] = open(t, "redis://"+s.Addr())
	}
	// all lets each host do something, and returns how many succeeded and how many scripts that took.
	all := func(do func(d *backends.Engine, c backends.Claim) error) (succeeded, asked int) {
		var (
			running sync.WaitGroup
			ok      atomic.Int64
			before  = scripts(t, s)
			tick    = time.Now().Unix() - 10
		)
		for i := range hosts {
			running.Go(func() {
				c := claim("job", long)
				c.Tick = tick
				if do(drivers[i%len(drivers)], c) == nil {
					ok.Add(1)
				}
			})
		}
		running.Wait()
		return int(ok.Load()), scripts(t, s) - before
	}
	g, _ := granted(t, drivers[0], claim("job", long))
	finish(t, drivers[0], g)
	granted, asked := all(func(d *backends.Engine, c backends.Claim) error {
		_, err := d.Acquire(within(t, suite.Patience), c)
		if _, refused := errors.AsType[*backends.Refusal](err); err != nil && !refused {
			t.Error(err)
		}
		return err
	})
	if granted != 1 || asked > 3*hosts {
		t.Errorf("%d of %d were granted, with %d scripts", granted, hosts, asked)
	}
	abandoned, asked := all(func(d *backends.Engine, c backends.Claim) error { return d.Abandon(within(t, suite.Patience), c) })
	if abandoned != hosts || asked > 2*hosts {
		t.Errorf("%d of %d were taken back, with %d scripts", abandoned, hosts, asked)
	}
	status, err := drivers[0].Inspect(within(t, suite.Patience), "job")
	if n := len(status.Record.Refused); err != nil || n != backends.KeptAbandoned {
		t.Errorf("%d are remembered, %v", n, err)
	}
}
