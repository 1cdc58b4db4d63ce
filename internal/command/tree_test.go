package command

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/process"
	"github.com/leaderrun/leaderrun/runner"
)

// Hazard: a guardian hangs before its exec(2), as on a disk that does not answer. The wrapper holds a lease by then, and
// would neither end nor hear a signal.
func TestAGuardianThatIsNeverReadyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	stuck := &tree{ready: make(chan struct{})}
	end := boottime.Now().Add(10 * time.Millisecond)
	if err := stuck.Start(nil, nil, nil, runner.Deadline{End: end}); !errors.Is(err, process.ErrTooLate) {
		t.Errorf("%v, want %v", err, process.ErrTooLate)
	}
	if boottime.Now() < end {
		t.Error("given up before the deadline")
	}
	stuck.Close() // they come back
	stuck.fell()
}
