// Package ownership says whether a user other than root and this one can change a file or folder. What such a file says may be that
// user's word, and a lock on it can be taken away. The rule is that of sshd's StrictModes and of sudo: the owner is root or this
// user, and neither the group nor others may write. The group may write if it is root's, as for sudo, or if it has no member but the
// owner.
package ownership

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Error says who else has a file in hand.
type Error struct {
	Path   string
	Why    string // one line, to follow the path
	Remedy string // one line

	foreign bool // it is about the owner
}

func (e *Error) Error() string { return e.Path + " " + e.Why }

// Remedy is how what an error says can be mended; "" if it is no *Error.
func Remedy(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Remedy
	}
	return ""
}

const (
	groupWrites  = 0o020
	othersWrite  = 0o002
	othersRead   = 0o004
	maxLinks     = 40 // as the kernel has it
	rootsGroup   = 0
	rootHimself  = 0
	readWithWait = syscall.O_NONBLOCK // a pipe in the place of a file is not waited for
)

// Check returns an *Error if somebody else owns what was opened, or may write it.
func Check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return check(f.Name(), info, aclOf(f))
}

func check(path string, info fs.FileInfo, acl acl) error {
	if err := owned(path, info); err != nil || shared(info) {
		return err
	}
	if how := othersWriteBy(info, acl); how != "" {
		return &Error{Path: path, Why: "can be written by others (" + how + ")", Remedy: "chmod go-w " + path}
	}
	return nil
}

// shared says whether all may write something, and yet not change what is read from it: a folder with the sticky bit, such as /tmp,
// where nobody may touch the files of others, and a device such as /dev/null.
func shared(info fs.FileInfo) bool {
	return info.IsDir() && info.Mode()&fs.ModeSticky != 0 || info.Mode()&fs.ModeCharDevice != 0
}

// owned is the part of check about the owner.
func owned(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == rootHimself || int(st.Uid) == os.Geteuid() {
		return nil
	}
	if os.Geteuid() == rootHimself {
		return &Error{path, "belongs to " + UserName(st.Uid) + " and not to root", "chown root " + path, true}
	}
	return &Error{path, "belongs to " + UserName(st.Uid) + ", and neither to root nor to this user", "use one of your own", true}
}

// onTheWay is an error about what leads to a path. To make that somebody else's would take a home away from its owner, and
// chown follows a link.
func onTheWay(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.foreign {
		e.Remedy = "run as its owner"
	}
	return err
}

// OthersWrite says whether somebody else than root, this user and its owner may write what was opened: all may, or a group that is
// neither root's nor the owner's own, or whom its ACL names.
func OthersWrite(f *os.File, info fs.FileInfo) bool { return othersWriteBy(info, aclOf(f)) != "" }

// othersWriteBy is OthersWrite as the reason, "" if they may not.
func othersWriteBy(info fs.FileInfo, acl acl) string {
	how := fmt.Sprintf("mode %04o", info.Mode().Perm())
	if info.Mode().Perm()&othersWrite != 0 {
		return how
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Perm()&groupWrites == 0 { // beside an ACL, this bit is the most that it lets anybody do
		return ""
	}
	var users []uint32
	groups := []uint32{st.Gid}
	text, err := acl()
	if text != nil {
		how += " and its ACL"
		users, groups, err = writers(text, st.Gid)
	}
	other := func(uid uint32) bool { return uid != rootHimself && uid != st.Uid && int(uid) != os.Geteuid() }
	others := func(gid uint32) bool { return gid != rootsGroup && !ownGroup(st.Uid, gid) }
	switch {
	case err != nil:
		return how + ", no ACL that can be read: " + err.Error()
	case slices.ContainsFunc(users, other) || slices.ContainsFunc(groups, others):
		return how
	}
	return ""
}

// OthersRead says whether all may read a file of this user, who can change that.
func OthersRead(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&othersRead != 0
}

// CheckFolder returns an *Error if somebody else can put another folder in the place of an absolute path, or change what
// belongs to this user or root in it. It looks at every folder and symbolic link on the way. Where the sticky bit is set,
// as in /tmp, all may make files and nobody may touch those of others: who opens a file there looks whose it is.
func CheckFolder(path string) error {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; ; {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		err = check(at, info, aclAt(at))
		for len(rest) > 0 && (rest[0] == "" || rest[0] == ".") {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return err
		}
		if err != nil {
			return onTheWay(err)
		}
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := linkAt(next)
		if err != nil {
			return err
		}
		if target == "" {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
}

// linkAt returns where a symbolic link points to, "" if it is none. It must not be another's.
func linkAt(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	if err := owned(path, info); err != nil {
		return "", onTheWay(err)
	}
	return os.Readlink(path)
}

// Open opens a regular file that only root and this user can change; flags are those of os.OpenFile. It does not wait
// for the other end of a pipe. What HandedOver says of a path, it takes as it is.
func Open(path string, flags int, perm fs.FileMode) (*os.File, fs.FileInfo, error) {
	f, info, err := OpenRegular(path, flags, perm)
	if err != nil {
		return nil, nil, err
	}
	if HandedOver(path) {
		return f, info, nil
	}
	if err := check(path, info, aclOf(f)); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// OpenRegular is Open of a file that others may change too.
func OpenRegular(path string, flags int, perm fs.FileMode) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flags|readWithWait|syscall.O_CLOEXEC, perm)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !HandedOver(path) {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// handedPatience is how long what was handed over may be silent: whoever reads it may listen to no signal yet.
const handedPatience = 10 * time.Second

// Read reads a regular file of at most so many bytes that only root and this user can change, or what was handed over.
func Read(path string, most int64) ([]byte, fs.FileInfo, error) {
	f, info, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(handedPatience)) // a regular file has none
	text, err := readAll(f, most)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("nobody has written to its end within %v", handedPatience)}
	}
	return text, info, err
}

func readAll(f *os.File, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("larger than " + size(most))}
	}
	return text, err
}

// ReadAny is Read of what need not be a regular file. A named pipe that nobody writes to is empty.
func ReadAny(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|readWithWait|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !HandedOver(path) {
		if err := Check(f); err != nil {
			return nil, err
		}
	}
	return readAll(f, most)
}

// HandedOver says whether a path names a descriptor of this process, which is the word of whoever started it: /dev/stdin, or /dev/fd/3 as
// `<(…)` of a shell makes it. It does not follow links: another user can make one.
func HandedOver(path string) bool {
	fd, ok := strings.CutPrefix(path, "/dev/fd/")
	if !ok {
		fd, ok = strings.CutPrefix(path, "/proc/self/fd/")
	}
	_, err := strconv.ParseUint(fd, 10, 31)
	return path == "/dev/stdin" || ok && err == nil
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// UserName returns the name of a user, or "uid N".
func UserName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}

// Create makes a new file with the owner, mode and access control list of another; nil: it is this user's alone. When it returns without an
// error, the text is on the disk; else there is no file.
func Create(path string, text []byte, like *os.File) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && like != nil {
		err = takeAfter(file, like)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// takeAfter gives a file the owner, mode and access control list of another.
func takeAfter(file, other *os.File) error {
	info, err := other.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := errors.Join(file.Chown(int(st.Uid), int(st.Gid)), file.Chmod(info.Mode().Perm())); err != nil {
		return err
	}
	if text, err := aclOf(other)(); err == nil && len(text) > 0 {
		return setACL(file, text)
	}
	return nil
}

// SyncFolder returns when the names in a folder are on the disk.
func SyncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
