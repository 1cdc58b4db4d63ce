// Bench measures leaderrun beside what people use in its place: flock(1), `etcdctl lock`, `consul lock`, an advisory lock
// that psql holds, supercronic, and a bare spawn, all in one run on one machine. What it compares takes turns, so that a
// busy moment hits all alike. The usage text below says what it can do.
//
// It builds leaderrun as it is released, and starts the servers of its own on free ports; `make servers` has
// installed or built them. Measure on an idle machine: under load the ratios shrink and mislead.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

const usageText = `usage: go run ./scripts/bench [COMMAND] [OPTION…]

  run     time of a whole run, handover, memory and wake-ups of one wrapper (where no command is named)
  cron    many jobs due at the same minute, beside supercronic
  tables  put the results into a page, between its marks

run and cron print tables, and write the results as JSON with -json FILE. COMMAND -h lists its options.
`

// stampRole is the role in which this program is the command of a run.
const stampRole = "stamp"

// commands are what this program can do, by name; the first is done where none is named.
var commands = []struct {
	name string
	do   func(args []string) error
}{
	{"run", runCommand},
	{"cron", cronCommand},
	{"tables", tablesCommand},
}

func main() {
	if err := act(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func act(args []string) error {
	if len(args) > 1 && args[0] == stampRole {
		return stamp(args[1])
	}
	if len(args) > 0 && slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		fmt.Print(usageText)
		return nil
	}
	endWithFamily()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return commands[0].do(args)
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.do(args[1:])
		}
	}
	return fmt.Errorf("no command %q\n%s", args[0], usageText)
}

// endWithFamily makes a signal the end of all that this program has started, too.
func endWithFamily() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s := <-signals
		for _, pid := range family(os.Getpid())[1:] {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		fmt.Fprintln(os.Stderr, "bench:", s)
		os.Exit(1)
	}()
}

// measuring are the options of all that measure.
type measuring struct {
	*flag.FlagSet
	json, only *string
}

func newMeasuring(name, beside string) measuring {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	return measuring{
		FlagSet: flags,
		json:    flags.String("json", "", "write the results to this file, too"),
		only:    flags.String("only", "", "measure those whose name fits this regular expression, beside "+beside),
	}
}

// present prints the results of what was measured, even if it ended early, and writes them down.
func (m measuring) present(r *report, err error) error {
	if len(r.Measures) > 0 {
		fmt.Print(r.text())
	}
	if *m.json == "" {
		return err
	}
	return cmp.Or(err, r.write(*m.json))
}
