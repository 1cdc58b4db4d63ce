package guardian_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Go initialises a package as soon as all it imports are, in the order of import paths: with one of
// x/sys/unix, os/exec, fmt or runtime/debug this package would silently come after the clients of the
// backends, and every guardian would pay for them.
func TestImportsAreFew(t *testing.T) {
	const module = "github.com/leaderrun/leaderrun/internal/"
	allowed := []string{
		"syscall", "unsafe", "runtime", "errors", "time", "os", "os/signal", "io",
		module + "boottime", module + "lifeline", module + "supervise/tree", module + "supervise/guardian", "sync", "strconv",
	}
	for _, name := range []string{"boottime", "lifeline", "supervise/tree", "supervise/guardian", "supervise/ahead"} {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, module+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		for imported := range strings.FieldsSeq(string(out)) {
			if !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s", name, imported)
			}
		}
	}
}
