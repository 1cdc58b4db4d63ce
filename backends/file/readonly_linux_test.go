package file

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Whoever runs it, nothing can be written there.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "mode=700"); err != nil {
		servers.Lack(t, "root", fmt.Sprintf("mount: %v", err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	_, err := Open("file://" + dir)
	wantMisconfigured(t, err, dir+": read-only file system", "name another directory")
}
