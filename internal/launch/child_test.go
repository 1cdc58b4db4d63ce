package launch

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/runner"
)

// Hazard: a guardian hangs before its exec(2), as on a disk that does not answer. The wrapper holds a lease by then, and would neither
// end nor hear a signal.
func TestAGuardianThatIsNeverReadyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	stuck := &Tree{pending: supervise.Begin(supervise.Options{Begun: func() (guardian.Begun, bool) {
		<-hung
		return guardian.Begun{}, false
	}})}
	term := boottime.Now().Add(10 * time.Millisecond)
	err := stuck.Start(nil, nil, nil, runner.Deadline{Term: term, Kill: term, End: term})
	if !errors.Is(err, supervise.ErrTooLate) || boottime.Now() < term {
		t.Errorf("%v, want %v, and not before the deadline", err, supervise.ErrTooLate)
	}
	stuck.Close() // it comes back
	stuck.Discard()
}
