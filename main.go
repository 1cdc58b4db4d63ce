// Command leaderrun runs a command on at most one of many hosts at a time, and at most once per tick.
package main

import (
	"os"

	"github.com/leaderrun/leaderrun/internal/command"
	"github.com/leaderrun/leaderrun/internal/process"
)

func main() {
	end := command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)
	if end.Signal != 0 {
		process.Reraise(end.Signal)
	}
	os.Exit(end.Code)
}
