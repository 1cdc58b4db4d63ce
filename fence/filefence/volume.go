package filefence

import "github.com/leaderrun/leaderrun/internal/remedy"

// judge refuses a file system of which it is not known that a file is replaced in one step there, whatever happens, that
// fsync(2) brings it to the disk, and that flock(2) excludes all who can reach it. tmpfs and ramfs forget all at once, which
// tears nothing.
func judge(dir, kind string) error {
	switch kind {
	case "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "tmpfs", "ramfs", "overlay",
		"apfs", "hfs", "ufs":
		return nil
	}
	return remedy.Misconfigured("put it on a local one with a journal, such as ext4, xfs, btrfs or zfs",
		"%s is on the file system %q, where a file may be torn or a lock lost", dir, kind)
}

// checkVolume refuses a directory on a file system that cannot be trusted.
func checkVolume(dir string) error {
	kind, err := volumeOf(dir)
	if err != nil {
		return err
	}
	return judge(dir, kind)
}
