package filefence_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/fence/filefence"
)

// Hazard: what a run left that was killed fills the disk, or a newer run takes the file away that another one writes.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	path := filepath.Join(dir, "report")
	stay := []string{
		".report.fence.tmp", ".report.fence.0123.tmp", ".report.fence.0123456789abcdefg.tmp", ".report.fence.0123456789abcdeX.tmp",
		".report.fence.0123456789abcdef", "report.fence.0123456789abcdef.tmp", ".other.fence.0123456789abcdef.tmp",
		".report.fence.0123456789abcdef.tmp.fence.0123456789abcdef.tmp",
	}
	for _, name := range append(stay, ".report.fence.0123456789abcdef.tmp", ".report.fence.ffffffffffffffff.tmp") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	older := raise(t, open(t, path, filefence.Options{}), 1)
	contains(t, dir, append(stay, ".report.fence", ".report.fence.lock")...)
	err := older.Replace(t.Context(), func(w io.Writer) error {
		before := temporaries(t, dir)
		raise(t, open(t, path, filefence.Options{}), 1) // a second writer of the same run
		if after := temporaries(t, dir); len(after) != len(before) {
			t.Errorf("%q became %q: the file of a run that lives was taken away", before, after)
		}
		return write("new")(w)
	})
	if err != nil {
		t.Error(err)
	}
	holds(t, path, "new")
	contains(t, dir, append(stay, ".report.fence", ".report.fence.lock", "report")...)
}
