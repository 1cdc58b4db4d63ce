// Testsum runs go test with the given arguments, prints what go test prints, and ends with one line that
// says which tests were skipped and why. Lines before it say which cases of the stores' conformance suite were left out,
// because a store cannot be tried on them, and which tests failed. Its exit code is that of go test.
//
//	testsum FLAGS -- PACKAGES [-- PACKAGES]...
//
// tests one list of packages after another, for those that have to be alone, and ends with the first exit code that is
// not 0.
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
	"slices"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errOut io.Writer) int {
	// A Ctrl-C reaches go test too; what it still says is worth printing. Notify and not Ignore: the
	// tests would inherit an ignored signal.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	defer signal.Stop(interrupted)

	report := newReport(out)
	code := 0
	for _, args := range groups(args) {
		if c := test(args, report, errOut); code == 0 {
			code = c
		}
		if len(interrupted) > 0 { // nobody wants the rest
			code = max(code, 1)
			break
		}
	}
	report.summary()
	if code == 0 && report.sawFailure {
		return 1
	}
	return code
}

// groups returns the arguments of each go test.
func groups(args []string) [][]string {
	i := slices.Index(args, "--")
	if i < 0 {
		return [][]string{args}
	}
	flags, packages := args[:i], args[i+1:]
	var all [][]string
	for i >= 0 {
		group := packages
		if i = slices.Index(packages, "--"); i >= 0 {
			group, packages = packages[:i], packages[i+1:]
		}
		all = append(all, slices.Concat(flags, group))
	}
	return all
}

// test runs go test once, and returns its exit code, or 1.
func test(args []string, report *report, errOut io.Writer) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
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
