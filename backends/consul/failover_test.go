package consul

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestLeaderStopped: the leader of three freezes while a run is held. Renewals succeed on the other hosts, nobody
// else is granted, and what the old leader answers when it wakes up changes nothing.
func TestLeaderStopped(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	o := servers.ConsulOptions{Config: shortest}
	set := servers.ConsulClusterOf(t, o, o, o)
	leader := set.Leader(t)
	hosts := leader.Addr()
	for _, m := range set.Members {
		if m != leader {
			hosts += "," + m.Addr()
		}
	}
	d, other, stale := open(t, "consul://"+hosts), open(t, "consul://"+hosts), open(t, leader.URL())
	g := steps.Acquire(d, claim("job", "a", time.Minute))
	leader.Stop(t)
	defer leader.Cont(t)
	for end := time.Now().Add(suite.Patience); ; {
		_, err := d.Renew(within(t, time.Second), g)
		if err == nil {
			break
		}
		if errors.Is(err, backends.ErrLost) || backends.IsPermanent(err) || time.Now().After(end) {
			t.Fatalf("Renew: %v", err)
		}
	}
	asleep := make(chan error, 1)
	go func() {
		plain := g
		plain.Private = nil
		_, err := stale.Renew(within(t, suite.Patience), plain)
		asleep <- err
	}()
	set.Changed(t, leader)
	for end := time.Now().Add(suite.Patience); ; {
		_, err := other.Acquire(within(t, time.Second), claim("job", "b", time.Minute))
		if r, ok := errors.AsType[*backends.Refusal](err); ok && r.Verdict == backends.Held {
			break
		}
		if err == nil || time.Now().After(end) {
			t.Fatalf("Acquire: %v", err)
		}
	}
	steps.Finish(d, g)
	next := steps.Acquire(other, claim("job", "b", time.Minute))
	leader.Cont(t)
	if err := <-asleep; err == nil {
		t.Error("the leader that was frozen renewed a run that had ended")
	}
	steps.Renew(other, next)
	steps.Finish(other, next)
}
