package filefence

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// dress gives a file the permission bits, owner and group of another one; nil: there is none to be like. A bit that makes
// programs run as the owner is not for content that somebody else may have made.
func dress(f *os.File, like fs.FileInfo) error {
	if like == nil {
		return nil
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	have, want := ownerOf(mine), ownerOf(like)
	if have != want {
		if err := f.Chown(want.user, want.group); err != nil {
			return remedy.Denied("run as that user in that group, or as root, or give the old file to this user with chown",
				"the new file cannot belong to user %d and group %d, as the old one does: %w", want.user, want.group, err)
		}
	}
	return unusable(f.Chmod(like.Mode().Perm()))
}

func dressedAlike(a, b fs.FileInfo) bool {
	return ownerOf(a) == ownerOf(b) && a.Mode().Perm() == b.Mode().Perm()
}

type owner struct{ user, group int }

func ownerOf(info fs.FileInfo) owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok { // of no file of a disk
		return owner{-1, -1}
	}
	return owner{int(stat.Uid), int(stat.Gid)}
}
