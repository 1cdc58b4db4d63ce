package file

import (
	"os"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/filesystem"
)

// What a machine keeps in memory is forgotten with it.
func TestExamineMemory(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "lr") //nolint:usetesting // there
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if v, err := filesystem.Of(dir); err != nil || v.Ends == "" {
		t.Skipf("%s is not in memory: %+v, %v", dir, v, err)
	}
	examine(t, openDir(t, dir)).Expect(t, "file system", backends.Warning, "starts again")
}
