package metrics

import (
	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// The values of the label outcome. They are a contract.
const (
	// The command ran.
	done        = "done"
	failed      = "failed"
	stopped     = "stopped"
	timedOut    = "timed_out"
	lost        = "lost"
	unconfirmed = "unconfirmed"
	unrecorded  = "unrecorded"

	// It did not.
	skippedHeld  = "skipped_held"
	skippedDone  = "skipped_done"
	skippedEnded = "skipped_ended"
	skippedLate  = "skipped_late"
	unreachable  = "unreachable"
	refused      = "refused"
	interrupted  = "interrupted"
	startFailed  = "start_failed"
)

// outcomeOf says what became of an attempt, in the words that the record has for it where it ran. stopping:
// its command had been asked to stop.
func outcomeOf(r runner.Result, stopping bool) string {
	switch r.Ending {
	case runner.Refused:
		return refusalOf(r.Refusal)
	case runner.WaitOver:
		return skippedHeld
	case runner.Unreachable, runner.NotStarted:
		return unreachable
	case runner.Permanent:
		return refused
	case runner.Interrupted:
		return interrupted
	case runner.StartFailed:
		return startFailed
	case runner.TimedOut:
		return timedOut
	case runner.LeaseLost, runner.TreeLost:
		return lost
	case runner.Broken:
		return stopped
	case runner.Unconfirmed:
		return unconfirmed
	case runner.Unrecorded:
		return unrecorded
	case runner.Ran:
	}
	switch {
	case stopping, r.Signal != 0 && r.Status.Signal == r.Signal:
		return stopped
	case r.Status.Known && r.Status.ExitCode() == 0:
		return done
	}
	return failed
}

func refusalOf(r *backends.Refusal) string {
	if r == nil {
		return refused
	}
	switch r.Verdict {
	case backends.Held, backends.Vanished, backends.Quarantined, backends.Reserved:
		return skippedHeld
	case backends.IsDone:
		return skippedDone
	case backends.IsFailed, backends.IsStopped, backends.IsLost, backends.IsMissed, backends.IsEarlier:
		return skippedEnded
	case backends.Late:
		return skippedLate
	case backends.Granted, backends.Abandoned, backends.Future, backends.FutureRecorded, backends.Outdated, backends.Divided, backends.Nested:
	}
	return refused
}
