//go:build !linux

package boottime

import (
	"sync"
	"time"
)

// tick bounds how late a timer is after a suspend: Go's timers stop while the machine sleeps, so the
// clock is compared again at least this often.
const tick = 250 * time.Millisecond

// Now reads the wall clock: these systems have no clock that Go can reach without cgo and that goes
// on in suspend. docs/guarantees.md says what that costs.
func Now() Instant { return Instant(time.Now().UnixNano()) }

// Monotonic is for systemd, which these systems do not have.
func Monotonic() time.Duration { return time.Duration(Now()) }

// Timer wakes its owner at an instant. A wake-up may be spurious: the owner compares Now with what it
// waits for. Safe for use by several goroutines.
type Timer struct {
	c    chan struct{}
	set  chan Instant
	stop chan struct{}
	once sync.Once
}

// NewTimer returns a timer that is not set.
func NewTimer() (*Timer, error) {
	t := &Timer{c: make(chan struct{}, 1), set: make(chan Instant), stop: make(chan struct{})}
	go t.run()
	return t, nil
}

// C receives a value when the timer expires.
func (t *Timer) C() <-chan struct{} { return t.c }

// Set makes the timer expire at the given instant, at once if it has passed, and forgets an earlier setting.
func (t *Timer) Set(at Instant) {
	select {
	case t.set <- at:
	case <-t.stop:
	}
}

// Stop ends the timer. C receives nothing more.
func (t *Timer) Stop() { t.once.Do(func() { close(t.stop) }) }

func (t *Timer) run() {
	var at Instant
	armed := false
	for {
		wait := time.Hour
		if armed {
			wait = min(max(at.Sub(Now()), 0), tick)
		}
		select {
		case at = <-t.set:
			armed = true
		case <-time.After(wait):
			if armed && Now() >= at {
				armed = false
				select {
				case t.c <- struct{}{}:
				default:
				}
			}
		case <-t.stop:
			return
		}
	}
}
