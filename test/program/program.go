// Package program makes the binary of a package's tests leaderrun, too: tests of the command line start it as people do.
package program

import (
	"maps"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/cli/all"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// Main runs the tests of a package, or the program that this process was started as: leaderrun or one of others. The programs are in PATH
// while the tests run.
func Main(m *testing.M, others map[string]func()) {
	cli.Provide(all.Commands()...)
	for _, limit := range []*time.Duration{&launch.PatienceToRead, &launch.PatienceToWrite, &launch.PatienceToMake} { // the machine may stand still
		*limit = waits.Patience
	}
	programs := map[string]func(){"leaderrun": Run}
	maps.Copy(programs, others)
	testscript.Main(reached{m}, programs)
}

// reached runs the tests so that signals reach the programs they start.
type reached struct{ *testing.M }

func (m reached) Run() int {
	servers.HearSignals()
	return m.M.Run()
}

// Run is leaderrun.
func Run() {
	end := Call(os.Args)
	if end.Signal != 0 {
		supervise.Reraise(end.Signal)
	}
	os.Exit(end.Code)
}

// Call is a call of leaderrun that comes back.
func Call(args []string) cli.ExitStatus {
	return cli.Main(args, os.Stdin, os.Stdout, os.Stderr, launch.Begin)
}
