// Command leaderrun runs a command on at most one of many hosts at a time, and at most once per tick.
package main

import (
	"os"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/cli/all"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/supervise"
)

func main() {
	cli.Provide(all.Commands()...)
	end := cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, launch.Begin)
	if end.Signal != 0 {
		supervise.Reraise(end.Signal)
	}
	os.Exit(end.Code)
}
