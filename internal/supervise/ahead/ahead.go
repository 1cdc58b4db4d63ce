// Package ahead starts the guardian of `leaderrun run` from init, on another thread, while most of the program is still
// being initialised: the two start beside each other. Like package guardian it is a leaf that imports next to nothing,
// which is why its init comes early.
//
// A guardian that nobody takes, or whose wrapper ends before it is needed, ends with the control channel.
package ahead

import (
	"os"

	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
)

// begun receives the guardian, or is closed without one; nil: none was started.
var begun chan guardian.Begun

func init() {
	if IsRun(os.Args) {
		begun = make(chan guardian.Begun, 1)
		go start()
	}
}

// IsRun tells by a glance at the arguments of a program whether a command is run, and not only the help is wanted. Where
// it is mistaken, the guardian starts later, or is sent away unused.
func IsRun(args []string) bool {
	if len(args) <= 3 || args[1] != "run" {
		return false
	}
	first := args[2]
	return first != "--help" && (len(first) < 2 || first[:2] != "-h")
}

// Take waits for the guardian that was started, and returns it once. false: there is none, or it was taken before.
func Take() (guardian.Begun, bool) {
	if begun == nil {
		return guardian.Begun{}, false
	}
	b, ok := <-begun
	return b, ok
}
