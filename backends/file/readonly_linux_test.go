package file

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever runs it, nothing can be written there.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "mode=700"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	_, err := Open("file://" + dir)
	wantMisconfigured(t, err, dir+": read-only file system", "name another directory")
}
