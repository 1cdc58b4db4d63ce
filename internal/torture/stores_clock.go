package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/testserver"
)

// clock is the wall clock of one server, which shows the machine's and as much more as a file says.
type clock struct {
	preload string // what fakes the clock; "": it cannot be moved
	file    string
}

func newClock(t testing.TB) *clock {
	t.Helper()
	c := &clock{file: filepath.Join(testserver.OpenDir(t), "offset")}
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if len(found) == 0 {
		t.Log("libfaketime is not installed, so the server's clock is not moved")
		return c
	}
	if err := c.move(0); err != nil {
		t.Fatal(err)
	}
	c.preload = found[0]
	return c
}

// environment is what the server has to be started with.
func (c *clock) environment() []string {
	if c.preload == "" {
		return nil
	}
	return []string{
		// libc's malloc before that of Redis (jemalloc): the library calls it while jemalloc, which reads the clock, is not ready.
		"LD_PRELOAD=" + c.preload + " libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1",
		"DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", // the older and the newer name
	}
}

// move steps the clock. The server reads the file whenever it looks at the clock, so there is always a whole one.
func (c *clock) move(offset time.Duration) error {
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "+%d\n", int(offset.Seconds())), 0o644); err != nil { //nolint:gosec // the server may be of another account
		return err
	}
	return os.Rename(next, c.file)
}

// ahead is by how much the clock is moved: no lease outlasts it.
const ahead = 2 * usualTTL

// faults are those of a server whose clock can be moved. It is mended when the machine's clock shows what the server's
// showed: before that a server that loses its records as well would grant with a lesser token.
func (c *clock) faults(whole func(t testing.TB) error) []Fault {
	if c.preload == "" {
		return nil
	}
	return []Fault{{
		Name: "clock stepped, and back", OnServer: true, Excused: true, Kills: true, AtLeast: usualTTL,
		Strike: func(b *Bed, _ Victim) (func() error, error) {
			mend := func() error {
				if err := c.move(0); err != nil {
					return err
				}
				time.Sleep(ahead)
				return whole(b.T)
			}
			return mend, c.move(ahead)
		},
	}}
}
