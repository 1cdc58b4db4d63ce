package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// forwarded are the signals that people and service managers send to a program, to be passed on to the
// command. Those of job control are the terminal's (see terminal), those of faults are ours.
var forwarded = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGALRM,
}

// CaptureSignals installs the handlers, before all but the start of a guardian, and returns the channel of what to
// forward. A HUP or INT that was ignored on entry (nohup, a shell's background job) stays
// ignored, for the command too.
func CaptureSignals() <-chan syscall.Signal {
	const pending = 64
	caught := make(chan os.Signal, pending)
	for _, n := range forwarded {
		if !signal.Ignored(n) {
			signal.Notify(caught, n)
		}
	}
	signals := make(chan syscall.Signal)
	panics.Go(func() {
		for s := range caught {
			if n, ok := s.(syscall.Signal); ok {
				signals <- n
			}
		}
	})
	return signals
}

// SurvivePipe takes SIGPIPE and drops it: a message to a stderr that nobody reads must not end the wrapper, nor hide its exit
// code. To be called before anything is said.
func SurvivePipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// EndsRun is lifeline.EndsRun, for those who do not run anything.
func EndsRun(n syscall.Signal) bool { return lifeline.EndsRun(n) }
