//go:build !linux

package guardian

import (
	"os"
	"os/signal"
	"syscall"
)

// dropSignals makes every signal come to nothing that Go's runtime acts on unless somebody asks for it: it would
// end, dump or stop. They are not set to be ignored, because exec would hand that on to the command (execve(2)),
// while caught ones are reset. What was ignored from the start (nohup) stays so, for the command too.
func dropSignals() {
	drain := make(chan os.Signal, 1)
	for _, n := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	} {
		if !signal.Ignored(n) {
			signal.Notify(drain, n)
		}
	}
}

// Here the stop signals are caught like the others.
func dropStops() {}
func liftStops() {}
