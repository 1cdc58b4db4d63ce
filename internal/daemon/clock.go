package daemon

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// Clock is the wall clock that ticks are on.
type Clock interface {
	Now() time.Time
	NewTimer() (Timer, error)
}

// Timer wakes the daemon at a time, or before.
type Timer interface {
	C() <-chan struct{}
	Set(at time.Time)
	Stop()
}

// longestSleep bounds how late a tick is when the wall clock was stepped forward. The time that a machine is
// suspended counts as slept.
const longestSleep = 10 * time.Second

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) NewTimer() (Timer, error) {
	t, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	return bootTimer{t}, nil
}

// bootTimer is a timer on the clock that goes on in suspend.
type bootTimer struct{ *boottime.Timer }

func (t bootTimer) Set(at time.Time) {
	t.Timer.Set(boottime.Now().Add(min(time.Until(at.Round(0)), longestSleep)))
}
