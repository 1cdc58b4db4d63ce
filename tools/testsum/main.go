// Testsum runs go test with the given arguments, prints what go test prints, and ends with one line that
// says which tests were skipped and why. Lines before it say which cases of the stores' conformance suite were left out,
// because a store cannot be tried on them, and which tests failed. Its exit code is that of go test.
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
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errOut io.Writer) int {
	// A Ctrl-C reaches go test too; what it still says is worth printing. Notify and not Ignore: the
	// tests would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)

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
	report := newReport(out)
	readErr := report.read(stdout)
	if readErr != nil {
		fmt.Fprintln(errOut, "testsum:", readErr)
		_, _ = io.Copy(io.Discard, stdout) // or go test would wait for a reader
	}
	err = cmd.Wait()
	report.summary()

	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(errOut, "testsum: go test:", err)
		return 1
	case readErr != nil || report.sawFailure:
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
