package runner

import (
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// Instant is a point in time on the machine's clock since boot, suspend included.
type Instant = boottime.Instant

// Deadline says until when a run may live if nobody extends it.
type Deadline = lifeline.Deadline

// The fixed parts of a lease's timeline.
const (
	DefaultTTL = 15 * time.Second
	MinTTL     = 5 * time.Second

	killBudget = lifeline.KillBudget
	minMargin  = 250 * time.Millisecond // the least margin for clocks that run at different rates
)

// Timeline is the plan of a lease: when it is renewed, and when the run must end if that fails. All its instants count
// from t0, which is read before the request is sent that the store answers:
//
//	t0 ──TTL/3── renew, retry … ──Term── SIGTERM ──grace── Kill SIGKILL ──0.7s── End ──margin── t0+TTL
type Timeline struct {
	TTL   time.Duration
	Grace time.Duration // between SIGTERM and SIGKILL
}

// NewTimeline checks that a run can be renewed, retried twice, stopped and killed within ttl.
// A negative grace means the default.
func NewTimeline(ttl, grace time.Duration) (Timeline, error) {
	t := Timeline{TTL: ttl, Grace: grace}
	if ttl < MinTTL {
		return t, fmt.Errorf("a TTL of %v is too short to renew, retry, stop and kill within: at least %v", ttl, MinTTL)
	}
	if grace < 0 {
		t.Grace = min(ttl/5, t.maxGrace())
	}
	return t, t.check()
}

// For returns the same plan for the TTL that a store granted, which may differ from the one asked for.
func (t Timeline) For(ttl time.Duration) (Timeline, error) {
	t.TTL = ttl
	return t, t.check()
}

// check holds Term - t0 >= TTL/3 + 2·(TTL/6): one renewal and two attempts to repeat it fit before SIGTERM.
func (t Timeline) check() error {
	if t.Grace > t.maxGrace() {
		return fmt.Errorf("a grace of %v does not fit a TTL of %v: at most %v", t.Grace, t.TTL, t.maxGrace())
	}
	return nil
}

func (t Timeline) maxGrace() time.Duration {
	return (t.TTL/3 - t.Margin() - killBudget).Truncate(time.Millisecond)
}

// Margin is how much two clocks may drift apart during one TTL: max(250 ms, 2% of the TTL). The tree is dead that much before the
// lease can run out on the store's clock.
func (t Timeline) Margin() time.Duration { return max(minMargin, t.TTL/50) }

// Deadline returns the deadlines of a lease that was granted or renewed by a request sent at t0.
func (t Timeline) Deadline(t0 Instant) Deadline {
	end := t0.Add(t.TTL - t.Margin())
	kill := end.Add(-killBudget)
	return Deadline{Term: kill.Add(-t.Grace), Kill: kill, End: end}
}

// renewEvery is the time from one request to the next one.
func (t Timeline) renewEvery() time.Duration { return t.TTL / 3 }

// requestLimit is how long one request may take.
func (t Timeline) requestLimit() time.Duration { return t.TTL / 6 }

// hedge is how long a renewal may stay silent before a second one goes out beside it.
func (t Timeline) hedge() time.Duration { return t.TTL / 12 }
