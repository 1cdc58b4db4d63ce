package filefence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// resolve follows the symbolic links of a path to the file that they mean, which need not exist.
func resolve(path string) (string, error) {
	const most = 40 // as in path_resolution(7)
	next := path
	for range most {
		dir, base := filepath.Split(next)
		if base == "" || base == "." || base == ".." {
			return "", remedy.Misconfigured("name a file", "%q is a directory, and no regular file", path)
		}
		dir, err := absolute(dir)
		if err != nil {
			return "", err
		}
		target := filepath.Join(dir, base)
		link, err := os.Readlink(target)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // no link, or nothing
			return target, nil
		case err != nil:
			return "", unusable(err)
		case filepath.IsAbs(link):
			next = link
		default:
			next = dir + "/" + link // to be followed step by step: its ".." may stand behind another link
		}
	}
	return "", remedy.Misconfigured("name a file", "%s: the symbolic links lead in a circle", path)
}

// absolute returns the path of a directory, without symbolic links.
func absolute(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		here, err := os.Getwd()
		if err != nil {
			return "", unusable(err)
		}
		dir = here + "/" + dir
	}
	resolved, err := filepath.EvalSymlinks(dir)
	return resolved, unusable(err)
}
