//go:build darwin || freebsd

package filesystem

import (
	"os"
	"syscall"
)

const mntLocal = 0x1000 // MNT_LOCAL of <sys/mount.h>

// Network names the network file system that a directory is on, or "".
func Network(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if uint64(st.Flags)&mntLocal != 0 {
		return "", nil
	}
	return "not a local one", nil
}
