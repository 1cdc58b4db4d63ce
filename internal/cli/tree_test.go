package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/runner"
)

// neverForked begins a guardian that hangs before its exec(2), as on a disk that does not answer.
func neverForked(t *testing.T, o supervise.Options) *supervise.Pending {
	t.Helper()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	o.Begun = func() (guardian.Begun, bool) {
		<-hung
		return guardian.Begun{}, false
	}
	return supervise.Begin(o)
}

// Hazard: a guardian hangs before its exec(2). The wrapper holds a lease by then, and would neither end nor hear a signal.
func TestAGuardianThatIsNeverReadyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	stuck := &tree{pending: neverForked(t, supervise.Options{})}
	mustBeTooLate(t, stuck)
	stuck.close() // it comes back
}

// The same in the daemon, where the guardian starts when the lease is ours: nobody renews meanwhile.
func TestADaemonsGuardianThatIsNeverReadyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	begin := func(o supervise.Options) *supervise.Pending { return neverForked(t, o) }
	mustBeTooLate(t, &launched{launch: &launch{launcher: &launcher{begin: begin}, job: &jobfile.Job{}}})
}

func mustBeTooLate(t *testing.T, stuck runner.Tree) {
	t.Helper()
	term := boottime.Now().Add(10 * time.Millisecond)
	if err := stuck.Start(nil, nil, nil, runner.Deadline{Term: term, Kill: term, End: term}); !errors.Is(err, supervise.ErrTooLate) {
		t.Errorf("%v, want %v", err, supervise.ErrTooLate)
	}
	if boottime.Now() < term {
		t.Error("given up before the deadline")
	}
	stuck.Close() // it comes back
}
