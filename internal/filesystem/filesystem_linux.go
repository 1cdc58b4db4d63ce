package filesystem

import (
	"os"
	"syscall"
)

// networkTypes are the file systems on which flock(2) does not exclude other hosts, or may lose a lock without
// a word, by the magic numbers of statfs(2). FUSE may be anything, sshfs among it.
var networkTypes = map[uint32]string{
	0x6969:     "NFS",
	0x517B:     "SMB",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB2",
	0x65735546: "FUSE",
	0x01021997: "9P",
	0x5346414F: "AFS",
	0x6B414653: "AFS",
	0x00C36400: "Ceph",
	0x0BD00BD0: "Lustre",
	0x01161970: "GFS2",
	0x7461636F: "OCFS2",
	0x73757245: "Coda",
	0x564C:     "NCP",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x20030528: "OrangeFS",
	0xAAD7AAEA: "PanFS",
	0x786F4256: "VirtualBox shared folder",
	0xBACBACBC: "VMware shared folder",
}

// Network names the network file system that a directory is on, or "".
func Network(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return networkTypes[uint32(st.Type)], nil //nolint:gosec // the magic number is 32 bits wide on every architecture
}

// passing are the file systems that forget, by the magic numbers of statfs(2), and when.
var passing = map[uint32]string{
	0x01021994: "when the machine starts again (tmpfs)",
	0x858458F6: "when the machine starts again (ramfs)",
	0x794C7630: "with its container (overlayfs)",
}

// Of looks at the file system of a directory.
func Of(dir string) (Volume, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Volume{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return Volume{
		Known: true, Ends: passing[uint32(st.Type)], //nolint:gosec // the magic number is 32 bits wide on every architecture
		Free: st.Bavail * uint64(st.Bsize), Files: st.Files, Left: st.Ffree, //nolint:gosec // a size is positive
	}, nil
}
