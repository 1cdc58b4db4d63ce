package servers

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/waits"
)

// RunWithProgram builds leaderrun once, runs the tests of a package and returns their exit code. use is told
// of the program, which other users may run too. Beside it, in the same folder, are the programs of the other packages,
// each by the last word of its path. What the developer has configured is not part of the tests.
func RunWithProgram(m *testing.M, use func(path string), others ...string) int {
	dir, err := os.MkdirTemp("", "leaderrun-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // other users stand for other hosts
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, other := range others { // what a test has read is part of what go test keeps its result for
		files, _ := filepath.Glob(filepath.Join(other, "*.go"))
		for _, file := range files {
			_, _ = os.ReadFile(file)
		}
	}
	words := append([]string{"build", "-o", dir + "/", "github.com/leaderrun/leaderrun"}, others...)
	build := exec.Command("go", words...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%s", err, out)
		return 1
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "LEADERRUN_") && name != "LEADERRUN_TEST_REQUIRE" && name != waits.Variable {
			_ = os.Unsetenv(name)
		}
	}
	use(filepath.Join(dir, "leaderrun"))
	HearSignals()
	return m.Run()
}

// HearSignals makes signals reach the programs that tests start from here on: a shell that started the tests with & has INT ignored,
// and nohup HUP, and programs inherit that.
func HearSignals() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
