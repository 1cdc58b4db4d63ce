package run

import (
	"fmt"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
)

// Check is `leaderrun check`.
func Check() *cli.Command {
	return &cli.Command{
		Name: "check", Brief: "inside a run: ask whether it still leads",
		About: `For the command of a run, before a step that must not be done twice. It asks the backend now, and prints
for how many milliseconds the run leads at least. The exit code is 75 if the run does not lead any more,
or if nobody can tell within a sixth of the TTL.

The same over HTTP: curl --unix-socket "$LEADERRUN_SOCKET" http://leaderrun/check answers 200 or 409,
with an object that has leading, left_ms, job, token and reason.`,
		Examples: []cli.ExampleLine{
			{Does: "go on only while this run leads", Line: "leaderrun run report sh -c 'leaderrun check >left.txt && report --full'"},
		},
		Options: cli.CommonOptions(), Run: runCheck,
	}
}

func runCheck(c *cli.Call) (cli.ExitStatus, error) {
	if len(c.Args) > 0 {
		return cli.ExitStatus{}, cli.Usage("check", "takes no arguments", "it asks about the run that it is called in")
	}
	path, ok := c.Settings.Lookup(cli.SocketVariable)
	if !ok || path == "" {
		return cli.ExitStatus{}, cli.Usage(cli.SocketVariable, "is not set", "`leaderrun check` is for the command of `leaderrun run`, which sets it")
	}
	ctx, cancel := c.SignalContext()
	defer cancel()
	answer, err := launch.AskRun(ctx, path, launch.AskLimit(path))
	switch {
	case err != nil:
		return cli.ExitStatus{}, &cli.Fault{Code: cli.CodeLost, What: "this run does not lead", Why: "no answer from leaderrun: " + err.Error(), Err: err}
	case !answer.Leading:
		return cli.ExitStatus{}, &cli.Fault{Code: cli.CodeLost, What: "this run does not lead", Why: answer.Reason}
	}
	return cli.ExitStatus{}, c.Print(fmt.Sprintln(*answer.Left))
}
