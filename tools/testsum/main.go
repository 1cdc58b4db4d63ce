// Testsum runs go test with the given arguments, prints what go test prints, and ends with one line that
// says which tests were skipped and why. Lines before it say which tests belong to the longer run only, which
// cases of the stores' conformance suite were left out because a store cannot be tried on them, and which tests failed. Its
// exit code is that of go test.
//
//	testsum [-slowest=N] FLAGS -- [NAME=VALUE]... [FLAGS] PACKAGES [-- ...]... [^ [NAME=VALUE]... [FLAGS] PACKAGES [-- ...]]...
//
// runs go test once for each group of packages, one group after the other, and ends with the first exit code that is not 0.
// The groups after a ^ are a lane of their own: they run at the same time as those before it, at a lower priority, so that
// tests of the first lane that measure time are not disturbed. NAME=VALUE sets a variable of the environment for one group. -slowest prints a table of the N tests that took longest.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// niceness is the priority of the lanes after the first one, see nice(1).
const niceness = "10"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errOut io.Writer) int {
	// A Ctrl-C reaches go test too; what it still says is worth printing. Notify and not Ignore: the
	// tests would inherit an ignored signal.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	defer signal.Stop(interrupted)

	slowest := 0
	if len(args) > 0 {
		if n, ok := strings.CutPrefix(args[0], "-slowest="); ok {
			var err error
			if slowest, err = strconv.Atoi(n); err != nil {
				fmt.Fprintln(errOut, "testsum: -slowest is followed by a number:", err)
				return 2
			}
			args = args[1:]
		}
	}
	report := newReport(out)
	lanes := lanes(args)
	codes := make([]int, len(lanes))
	var running sync.WaitGroup
	for i, groups := range lanes {
		running.Go(func() {
			for _, args := range groups {
				if c := test(i > 0, args, report, errOut); codes[i] == 0 {
					codes[i] = c
				}
				if len(interrupted) > 0 { // nobody wants the rest
					codes[i] = max(codes[i], 1)
					break
				}
			}
		})
	}
	running.Wait()
	report.summary(slowest)
	for _, code := range codes {
		if code != 0 {
			return code
		}
	}
	if report.sawFailure {
		return 1
	}
	return 0
}

// The words between lanes, and between groups.
const (
	nextLane  = "^"
	nextGroup = "--"
)

// variable is a word that sets a variable of the environment.
var variable = regexp.MustCompile(`^[A-Z_]+=`)

// lanes returns the words of each go test, as for env(1): variables, then arguments. Those of a lane run one after the other.
func lanes(args []string) [][][]string {
	i := slices.Index(args, nextGroup)
	if i < 0 {
		return [][][]string{{args}}
	}
	flags := args[:i]
	var all [][][]string
	for _, lane := range split(args[i+1:], nextLane) {
		var groups [][]string
		for _, group := range split(lane, nextGroup) {
			variables := 0
			for variables < len(group) && variable.MatchString(group[variables]) {
				variables++
			}
			groups = append(groups, slices.Concat(group[:variables], flags, group[variables:]))
		}
		all = append(all, groups)
	}
	return all
}

// split returns what stands between the words that equal sep.
func split(words []string, sep string) (parts [][]string) {
	for i := slices.Index(words, sep); i >= 0; i = slices.Index(words, sep) {
		parts, words = append(parts, words[:i]), words[i+1:]
	}
	return append(parts, words)
}

// test runs go test once, at a lower priority if nice, and returns its exit code, or 1.
func test(nice bool, args []string, report *report, errOut io.Writer) int {
	words := []string{"go", "test", "-json"}
	if nice {
		words = append([]string{"nice", "-n", niceness}, words...)
	}
	environment := os.Environ()
	for len(args) > 0 && variable.MatchString(args[0]) {
		environment, args = append(environment, args[0]), args[1:]
	}
	words = append(words, args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = environment
	cmd.Stderr = errOut
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(errOut, "testsum:", err)
		return 1
	}
	readErr := report.read(stdout)
	if readErr != nil {
		fmt.Fprintln(errOut, "testsum:", readErr)
		_, _ = io.Copy(io.Discard, stdout) // or go test would wait for a reader
	}
	err = cmd.Wait()

	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(errOut, "testsum: go test:", err)
		return 1
	case readErr != nil:
		return 1
	}
	return 0
}

// read follows the events until the stream ends. A line that is no event is printed as it is.
func (r *report) read(stream io.Reader) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil || e.Action == "":
			_, _ = r.out.Write(line)
		default:
			r.add(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
