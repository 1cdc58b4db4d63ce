package filefence

import (
	"fmt"
	"os"
	"strings"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// volumeOf names the file system of a directory, by the mount that an open descriptor of it belongs to. statfs(2) would tell
// ext2 and ext4, or all that FUSE can be, by one number.
func volumeOf(dir string) (string, error) {
	f, err := openDirectory(dir)
	if err != nil {
		return "", unusable(err)
	}
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return "", err
	}
	var info []byte
	var failed error
	err = conn.Control(func(fd uintptr) {
		info, failed = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	})
	if err != nil {
		return "", err
	}
	var mounts []byte
	if failed == nil {
		mounts, failed = os.ReadFile("/proc/self/mountinfo")
	}
	kind := mountedAs(string(mounts), mountOf(string(info)))
	if failed != nil || kind == "" {
		return "", remedy.Misconfigured("mount /proc", "/proc does not tell what the file system of %s is", dir)
	}
	return kind, nil
}

// mountOf reads the id of a mount from proc_pid_fdinfo(5).
func mountOf(fdinfo string) string {
	for line := range strings.Lines(fdinfo) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// mountedAs reads from proc_pid_mountinfo(5) of which kind a mount is: "36 35 98:0 /root /mnt rw - ext4 /dev/sda rw" with any
// number of fields before the "-". "": there is no such mount.
func mountedAs(mountinfo, id string) string {
	const before = 6 // fields that are always there, and of which none is a "-" that counts
	for line := range strings.Lines(mountinfo) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(fields) < before || fields[0] != id || id == "" {
			continue
		}
		for i, field := range fields[before:] {
			if field == "-" && before+i+1 < len(fields) {
				return fields[before+i+1]
			}
		}
	}
	return ""
}
