package file

import (
	"os"
	"syscall"
)

// passing are the file systems that forget, by the magic numbers of statfs(2), and when.
var passing = map[uint32]string{
	0x01021994: "when the machine starts again (tmpfs)",
	0x858458F6: "when the machine starts again (ramfs)",
	0x794C7630: "with its container (overlayfs)",
}

func volumeOf(dir string) (volume, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return volume{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return volume{
		known: true, ends: passing[uint32(st.Type)], //nolint:gosec // the magic number is 32 bits wide on every architecture
		free: st.Bavail * uint64(st.Bsize), files: st.Files, left: st.Ffree, //nolint:gosec // a size is positive
	}, nil
}
