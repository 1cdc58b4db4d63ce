// Package boottime reads the clock that leases are counted on: CLOCK_BOOTTIME, which goes on while
// the machine is suspended. Go's own monotonic clock and timers stop then (golang/go#24595,
// golang/go#35012), and a wall clock can be stepped, so neither may decide when a run must be dead.
//
// The guardian uses this package before the rest of the program is initialised: it may import only
// what the test of package guardian allows.
package boottime

import "time"

// Instant is a point in time in nanoseconds on this machine's clock since boot, suspend included.
// Instants of one machine can be compared between its processes; of two machines they cannot.
type Instant int64

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }
