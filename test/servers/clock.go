package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Clock is the wall clock of one server, which shows the machine's and as much more as a file says.
type Clock struct {
	preload string // what fakes the clock; "": it cannot be moved
	file    string
}

// NewClock returns a clock that shows the machine's time. Without libfaketime it always does.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	c := &Clock{file: filepath.Join(OpenDir(t), "offset")}
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if len(found) == 0 {
		return c
	}
	if err := c.Move(0); err != nil {
		t.Fatal(err)
	}
	c.preload = found[0]
	return c
}

// Moves says whether the clock can be moved.
func (c *Clock) Moves() bool { return c.preload != "" }

// MustMove is Require for a test that moves the clock.
func (c *Clock) MustMove(t testing.TB) {
	t.Helper()
	if !c.Moves() {
		Lack(t, "faketime", "libfaketime is not installed: make servers")
	}
}

// Environment is what the server has to be started with.
func (c *Clock) Environment() []string {
	if !c.Moves() {
		return nil
	}
	return []string{
		// libc's malloc before that of Redis (jemalloc): the library calls it while jemalloc, which reads the clock, is not ready.
		"LD_PRELOAD=" + c.preload + " libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1",
		"DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", // the older and the newer name
	}
}

// Move steps the clock. The server reads the file whenever it looks at the clock, so there is always a whole one.
func (c *Clock) Move(offset time.Duration) error {
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "+%d\n", int(offset.Seconds())), 0o644); err != nil { //nolint:gosec // the server may be of another account
		return err
	}
	return os.Rename(next, c.file)
}
