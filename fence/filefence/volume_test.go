package filefence_test

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
)

// Hazard: a file system that tears a file, or lets two hosts have one lock.
func TestFileSystems(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "ramfs", "overlay", "apfs", "hfs", "ufs"} {
		if err := filefence.Judge("/dir", kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, kind := range []string{
		"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse", "fuse.sshfs", "fuseblk", "virtiofs", "vfat", "exfat", "msdos", "ntfs", "ntfs3",
		"ext2", "ceph", "gfs2", "ocfs2", "afs", "unheard-of", "",
	} {
		if err := filefence.Judge("/dir", kind); !isSetup(err, fence.Configuration) || !strings.Contains(err.Error(), "/dir") || !strings.Contains(err.Error(), kind) {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}
