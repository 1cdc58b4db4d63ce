package ownership

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const aclName = "system.posix_acl_access"

func aclOf(f *os.File) acl {
	return func() (text []byte, err error) {
		raw, err := f.SyscallConn()
		if err != nil {
			return nil, err
		}
		failed := raw.Control(func(fd uintptr) {
			text, err = readACL(func(to []byte) (int, error) { return unix.Fgetxattr(int(fd), aclName, to) }) //nolint:gosec // a descriptor
		})
		return text, errors.Join(failed, err)
	}
}

// aclAt is aclOf of a folder that may not be opened.
func aclAt(path string) acl {
	return func() ([]byte, error) {
		return readACL(func(to []byte) (int, error) { return unix.Getxattr(path, aclName, to) })
	}
}

func setACL(f *os.File, text []byte) error { return unix.Fsetxattr(int(f.Fd()), aclName, text, 0) }

func readACL(get func([]byte) (int, error)) ([]byte, error) {
	text := make([]byte, aclMostSize)
	n, err := get(text)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return text[:n], nil
}
