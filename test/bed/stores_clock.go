package bed

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// clock is the wall clock of one server.
type clock struct{ *servers.Clock }

func newClock(t testing.TB) clock {
	t.Helper()
	c := clock{servers.NewClock(t)}
	if !c.Moves() {
		t.Log("libfaketime is not installed, so the server's clock is not moved")
	}
	return c
}

// ahead is by how much the clock is moved: no lease outlasts it.
const ahead = 2 * usualTTL

// faults are those of a server whose clock can be moved. It is mended when the machine's clock shows what the server's
// showed: before that a server that loses its records as well would grant with a lesser token.
func (c clock) faults(x *site) []Fault {
	if !c.Moves() {
		return nil
	}
	f := Fault{Name: "clock stepped, and back", Excused: true, Kills: true, AtLeast: usualTTL}
	return []Fault{x.fault(f, func(*Bed) (func() error, error) {
		return func() error {
			err := c.Move(0)
			time.Sleep(ahead)
			return err
		}, c.Move(ahead)
	})}
}
