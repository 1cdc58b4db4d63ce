//go:build unix

package tree

import "syscall"

// Prefix is how the names begin of directories that a run makes, holds while it lives, and removes at its end. Others of
// its kind may remove one that nobody holds: all who held it were killed.
const Prefix = "leaderrun."

// Hold locks a directory that was just made (flock(2)) until this process ends or closes the descriptor. ENOENT: somebody has taken
// it for one that nobody holds, and removed it.
func Hold(dir string) (fd int, err error) {
	fd, err = openDirectory(dir)
	if err != nil {
		return -1, err
	}
	err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK || !isAt(fd, dir) {
		_ = syscall.Close(fd)
		return -1, syscall.ENOENT
	}
	return fd, nil // a file system without locks has none for RemoveAbandoned either
}

// RemoveAbandoned calls remove for every directory of ours in parent that is named by Prefix and that nobody holds.
func RemoveAbandoned(parent string, remove func(dir string)) {
	names, _ := Names(parent)
	for _, name := range names {
		if len(name) > len(Prefix) && name[:len(Prefix)] == Prefix {
			removeAbandoned(parent+"/"+name, remove)
		}
	}
}

func removeAbandoned(dir string, remove func(dir string)) {
	fd, err := openDirectory(dir)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || int(st.Uid) != syscall.Geteuid() {
		return
	}
	if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil && isAt(fd, dir) {
		remove(dir)
	}
}

func openDirectory(dir string) (int, error) {
	return open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW)
}

func isAt(fd int, dir string) bool {
	var held, there syscall.Stat_t
	return syscall.Fstat(fd, &held) == nil && syscall.Lstat(dir, &there) == nil &&
		held.Dev == there.Dev && held.Ino == there.Ino
}
