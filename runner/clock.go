package runner

import "github.com/leaderrun/leaderrun/internal/boottime"

// Clock is the clock that leases are counted on. The zero Runner uses the machine's CLOCK_BOOTTIME; tests
// bring their own.
type Clock interface {
	Now() Instant
	// NewTimer returns a timer that is not set.
	NewTimer() (Timer, error)
}

// Timer wakes its owner at an instant. A wake-up may be spurious: the owner compares Now.
type Timer interface {
	C() <-chan struct{}
	Set(at Instant)
	Stop()
}

type bootClock struct{}

func (bootClock) Now() Instant { return boottime.Now() }

func (bootClock) NewTimer() (Timer, error) {
	t, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// never is an instant that does not come.
const never = Instant(1<<63 - 1)
