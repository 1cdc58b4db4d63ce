package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// accessExecute is X_OK of access(2).
const accessExecute = 1

// LookPath finds the command as a shell does (POSIX.1-2024, XCU 2.9.1.4): a name with a slash is a
// path, another is looked for in PATH, whose empty entries are the working directory. Where there is
// none the code is 127, where there is one that cannot be executed 126.
func LookPath(name string) (path string, code int, err error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", lookCode(err), err
		}
		return name, 0, nil
	}
	refused := error(nil)
	if name != "" {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			path := "./" + name
			if dir != "" {
				path = filepath.Join(dir, name)
				if !strings.Contains(path, "/") {
					path = "./" + path // PATH=.
				}
			}
			err := executable(path)
			if err == nil {
				return path, 0, nil
			}
			if lookCode(err) == codeNotExecutable && refused == nil {
				refused = err
			}
		}
	}
	if refused != nil {
		return "", codeNotExecutable, refused
	}
	return "", codeNotFound, &fs.PathError{Op: "look up", Path: name, Err: errNotInPath}
}

var errNotInPath = errors.New("not found in PATH")

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir():
		err = syscall.EISDIR
	default:
		err = syscall.Access(path, accessExecute)
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return &fs.PathError{Op: "execute", Path: path, Err: errno}
	}
	return err
}

func lookCode(err error) int {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) {
		return codeNotFound
	}
	return codeNotExecutable
}
