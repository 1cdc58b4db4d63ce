package supervise

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
	return LookPathIn(name, os.Getenv("PATH"), "")
}

// LookPathIn is LookPath for a command that has a PATH and a working directory of its own; "" is ours.
func LookPathIn(name, list, dir string) (path string, code int, err error) {
	if strings.Contains(name, "/") {
		if err := executable(name, dir); err != nil {
			return "", lookCode(err), err
		}
		return name, 0, nil
	}
	refused := error(nil)
	if name != "" {
		for _, place := range filepath.SplitList(list) {
			path := "./" + name
			if place != "" {
				path = filepath.Join(place, name)
				if !strings.Contains(path, "/") {
					path = "./" + path // PATH=.
				}
			}
			err := executable(path, dir)
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

// executable asks whether a path can be executed that is meant from dir.
func executable(path, dir string) error {
	file := path
	if !filepath.IsAbs(path) {
		file = filepath.Join(dir, path)
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
	case info.IsDir():
		err = syscall.EISDIR
	default:
		err = syscall.Access(file, accessExecute)
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
