//go:build darwin || freebsd || dragonfly

package filefence

import (
	"os"

	"golang.org/x/sys/unix"
)

// volumeOf names the file system of a directory.
func volumeOf(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", unusable(&os.PathError{Op: "statfs", Path: dir, Err: err})
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}
