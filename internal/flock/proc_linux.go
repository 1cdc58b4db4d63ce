package flock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Holders returns the processes that have one of the files open with the exclusive lock on it, sorted, and whether some
// could not be looked into. Who only waits for the lock has the file open too, but not the lock. A standby that has
// just got it after a crash, and has not claimed yet, does: it took the lock itself. For a run, the process that it was
// granted to took it for all who share it; 0 where that is not known.
func Holders(granted int, paths ...string) (pids []int, hidden bool, err error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) { // its numbers are those of strangers here
		return nil, false, errors.New("/proc does not show the processes of this PID namespace")
	}
	locks := map[string]os.FileInfo{}
	for _, path := range paths {
		lock, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		if err == nil {
			locks[filepath.Base(path)] = lock
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		holds, err := holdsLock(pid, locks, granted)
		if errors.Is(err, fs.ErrPermission) {
			hidden = true
		}
		if holds {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, hidden, nil
}

// holdsLock looks at one process. It may end meanwhile.
func holdsLock(pid int, locks map[string]os.FileInfo, granted int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, fd := range fds {
		target, err := os.Readlink(dir + fd.Name())
		lock := locks[filepath.Base(target)]
		if err != nil || lock == nil { // other files are not touched: they may hang
			continue
		}
		if file, err := os.Stat(dir + fd.Name()); err != nil || !os.SameFile(file, lock) {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd.Name()))
		if err != nil {
			return false, err
		}
		if taker, locked := lockTaker(info); locked && (granted == 0 || taker == granted || !isAnother(taker, granted)) {
			return true, nil
		}
	}
	return false, nil
}

// lockTaker reads fdinfo: whether the open file description has an exclusive flock, and which process asked for it; 0
// where that is not in our PID namespace.
func lockTaker(info []byte) (pid int, locked bool) {
	for line := range bytes.Lines(info) {
		words := bytes.Fields(line) // lock: 1: FLOCK ADVISORY WRITE 4711 …
		if len(words) < 6 || string(words[0]) != "lock:" || string(words[2]) != "FLOCK" || string(words[4]) != "WRITE" {
			continue
		}
		pid, _ = strconv.Atoi(string(words[5]))
		return pid, true
	}
	return 0, false
}

// isAnother says whether a process lives that is not the granted one, whose id may be that of another PID namespace.
func isAnother(pid, granted int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(status) {
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			words := bytes.Fields(ids)
			return len(words) == 0 || string(words[len(words)-1]) != strconv.Itoa(granted)
		}
	}
	return true
}

// Shown says whether an open file description has an exclusive flock: fdinfo lists the locks of the description,
// not of the process (since Linux 4.1, and where /proc is mounted).
func Shown(f *os.File) (bool, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var info []byte
	var failed error
	err = conn.Control(func(fd uintptr) {
		info, failed = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	})
	if err = errors.Join(err, failed); err != nil {
		return false, err
	}
	_, locked := lockTaker(info)
	return locked, nil
}
