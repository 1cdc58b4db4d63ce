package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/remedy"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

// The exit codes that are leaderrun's own. They are a contract.
const (
	CodeSkipped       = 0 // not run, and need not be: another holder runs the job, or this tick or key is done
	codeUnknownJob    = 1
	CodeNoData        = 1 // of fence --read: nothing was written yet
	CodeBad           = 1 // of doctor: something is bad
	CodeUsage         = 64
	CodeUnavailable   = 69
	CodeInternal      = 70
	CodeLost          = 75
	CodeNotRun        = 76 // not run, and nobody else makes up for it now
	CodeCredentials   = 77
	CodeConfiguration = 78
	CodeStale         = 79 // of fence: the run was overtaken
	codeTimeout       = 124
	codeSignal        = 128 // plus the signal's number
)

// ExitStatus is how the program ends: with a code, or by the signal that it was sent itself, so that whoever sent it
// sees what a shell would show.
type ExitStatus struct {
	Code   int
	Signal syscall.Signal // 0: none
}

// BySignal is the end by a signal that leaderrun received.
func BySignal(sig syscall.Signal) ExitStatus {
	return ExitStatus{Code: codeSignal + int(sig), Signal: sig}
}

// Fault is an error that ends the program, with its exit code, what people read, and the remedy.
type Fault struct {
	Code      int // 0: that of its cause
	What, Why string
	Hint      string
	Err       error
	Written   bool // what was to be written is there nevertheless, or may be: told also to who ended us by a signal
}

func (f *Fault) Error() string {
	switch {
	case f.Why == "":
		return f.What
	case f.What == "":
		return f.Why
	}
	return f.What + ": " + f.Why
}

func (f *Fault) Unwrap() error { return f.Err }

// Usage is a mistake on the command line.
func Usage(what, why, hint string) *Fault {
	return &Fault{Code: CodeUsage, What: what, Why: why, Hint: hint}
}

// endOfCall is how a command ends that has returned: by the signal that it was sent, if there is one.
func endOfCall(end ExitStatus, err error, received syscall.Signal) ExitStatus {
	switch {
	case received != 0:
		return BySignal(received)
	case errors.Is(err, ErrNoReader): // so does any other program
		return BySignal(syscall.SIGPIPE)
	case err != nil:
		return ExitStatus{Code: ErrorCode(err)}
	}
	return end
}

// EndOf is what becomes of an attempt to run a job. conflict is --conflict-exit-code,
// negative where it was not given.
func EndOf(r runner.Result, conflict int) ExitStatus {
	switch r.Ending {
	case runner.Refused:
		return ExitStatus{Code: refusalCode(r.Refusal, conflict)}
	case runner.WaitOver:
		return ExitStatus{Code: orElse(conflict, CodeNotRun)}
	case runner.Interrupted:
		if r.Signal != 0 {
			return BySignal(r.Signal)
		}
		return ExitStatus{Code: CodeInternal}
	case runner.Ran:
		switch {
		case !r.Status.Known:
			return ExitStatus{Code: CodeInternal}
		case r.Signal != 0 && r.Grant.Tick != r.Grant.Claim.Tick: // an earlier tick ran, and ours was given up
			return BySignal(r.Signal)
		case r.Status.Signal != 0 && r.Status.Signal == r.Signal:
			return BySignal(r.Signal)
		}
		return ExitStatus{Code: r.Status.ExitCode()}
	case runner.TimedOut:
		return ExitStatus{Code: codeTimeout}
	case runner.LeaseLost, runner.Broken, runner.Unconfirmed, runner.Unrecorded:
		return ExitStatus{Code: CodeLost}
	case runner.TreeLost:
		return ExitStatus{Code: CodeInternal}
	case runner.Unreachable, runner.NotStarted:
		return ExitStatus{Code: CodeUnavailable}
	case runner.Permanent, runner.StartFailed:
		return ExitStatus{Code: ErrorCode(r.Err)}
	}
	return ExitStatus{Code: CodeInternal}
}

// refusalCode is 0 for a refusal that is as good as a run, because another holder runs the job or has done it, and an error for the others.
func refusalCode(r *backends.Refusal, conflict int) int {
	if r == nil {
		return CodeInternal
	}
	switch r.Verdict {
	case backends.Held, backends.Reserved, backends.IsDone:
		return orElse(conflict, CodeSkipped)
	case backends.IsFailed, backends.IsStopped, backends.IsLost, backends.IsMissed, backends.IsEarlier, backends.Late:
		return orElse(conflict, CodeNotRun)
	case backends.Vanished, backends.Quarantined: // the runner waits these out; left over at a start deadline
		return orElse(conflict, CodeNotRun)
	case backends.Nested:
		return CodeUsage
	case backends.Future, backends.FutureRecorded, backends.Outdated, backends.Divided:
		return CodeConfiguration
	case backends.Granted, backends.Abandoned:
	}
	return CodeInternal
}

func orElse(conflict, code int) int {
	if conflict >= 0 {
		return conflict
	}
	return code
}

// Code is the exit code for a bad value: a fault of the caller on the command line, else of the configuration.
func (o origin) Code() int {
	if o == FromCommandLine {
		return CodeUsage
	}
	return CodeConfiguration
}

// ErrorCode is the exit code of an error.
func ErrorCode(err error) int {
	var (
		f        *Fault
		exec     *supervise.ExecError
		mendable *remedy.Error
	)
	switch {
	case errors.As(err, &f) && f.Code != 0:
		return f.Code
	case f != nil:
		return ErrorCode(f.Err)
	case errors.As(err, &exec):
		return exec.ExitCode()
	case errors.As(err, &mendable):
		if mendable.Kind == remedy.Credentials {
			return CodeCredentials
		}
		return CodeConfiguration
	case errors.Is(err, supervise.ErrTooLate): // not run: there was no time left to renew the lease
		return CodeUnavailable
	case errors.Is(err, backends.ErrUnknownJob):
		return codeUnknownJob
	}
	return CodeInternal
}

// codeRow is a line of the tables of exit codes.
type codeRow struct{ code, when string }

// exitCodesPage is the help page of all commands' codes.
func exitCodesPage() string {
	return "`leaderrun run` ends with the exit code of COMMAND, or with one of these:\n" + runCodes() + `
The other commands end with 0 where all went well, with 64, 69, 70, 77 or 78 as above, with 70 where stdout
cannot be written, and with:
` + codeTable([]codeRow{
		{"status", fmt.Sprintf("%d: the backend does not know the job; %d: a record cannot be read", codeUnknownJob, CodeConfiguration)},
		{"history", fmt.Sprintf("%d: the backend does not know the job", codeUnknownJob)},
		{"break", fmt.Sprintf("%d: the backend does not know the job; %d: it still runs, or may, or --forget-tick\nfinds another tick recorded by now", codeUnknownJob, CodeNotRun)},
		{"forget", fmt.Sprintf("%d: the backend does not know the job; %d: it still runs, or may", codeUnknownJob, CodeNotRun)},
		{"check", fmt.Sprintf("%d: the run does not lead, or nobody can tell", CodeLost)},
		{"fence", fmt.Sprintf("%d: the run is stale, and nothing was written; %d: not in a run; %d: the resource cannot be\nreached, or cannot do it now (a full disk); %d: there is nothing to --read yet;\nCOMMAND's own where it failed", CodeStale, CodeUsage, CodeUnavailable, CodeNoData)},
		{"doctor", fmt.Sprintf("%d: something is bad", CodeBad)},
		{"cron", fmt.Sprintf("0: it was told to end, and has drained; %d, %d: it cannot start: the backend refuses it,\nor a fault in its file; %d: it broke. What its commands end with is in its log,\nhistory and metrics", CodeCredentials, CodeConfiguration, CodeInternal)},
	})
}

// runCodes are the codes of run beside COMMAND's own.
func runCodes() string {
	return codeTable([]codeRow{
		{fmt.Sprintf("%d or -E N", CodeSkipped), "not run, in good hands: another holder runs the job now, or this tick or key is done"},
		{fmt.Sprintf("%d or -E N", CodeNotRun), "not run, not in good hands: --wait ran out, it is later than --start-deadline, or\nthe tick or key failed, was stopped, lost or missed"},
		{fmt.Sprint(CodeUsage), "the command line is wrong, or names a file or directory that cannot be used; or this run\nis inside a run of its own job"},
		{fmt.Sprint(CodeUnavailable), "the backend cannot be reached or cannot decide: not run"},
		{fmt.Sprint(CodeInternal), "a fault of leaderrun itself; its guardian was lost and the run was stopped"},
		{fmt.Sprint(CodeLost), "the lease was lost or broken and the run was stopped; the run could not be confirmed\ndead; or the end of a tick or key could not be recorded"},
		{fmt.Sprint(CodeCredentials), "the backend refuses the credentials"},
		{fmt.Sprint(CodeConfiguration), "the configuration is wrong, a clock is far ahead, or this host's schedule is outdated"},
		{fmt.Sprint(codeTimeout), "--timeout ended COMMAND"},
		{"126, 127", "COMMAND cannot be executed, is not found"},
		{"128+N", "signal N ended COMMAND"},
	}) + `
With --shards it is the code of the whole tick or key: 0 if all shards are done, else that of the first
shard that was run here and did not end well; 0 or -E N while others run shards; 76 or -E N if some ended
badly elsewhere.

76 is silent without a terminal unless this very run found the loss, and so is 0 for a run in good hands.
--log-level info tells why COMMAND was not run.
`
}

func codeTable(rows []codeRow) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "  %-12s %s\n", r.code, strings.ReplaceAll(r.when, "\n", "\n"+strings.Repeat(" ", 15)))
	}
	return b.String()
}
