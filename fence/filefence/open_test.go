package filefence_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
)

// Hazard: others may write in the directory, too, and put something in the place of the fence's files: who opens it hangs, or makes a
// file elsewhere.
func TestWhatIsInThePlaceOfTheFence(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(t *testing.T, path string) error{
		"a FIFO": func(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o666) },
		"a FIFO that somebody holds open": func(t *testing.T, path string) error {
			t.Helper()
			err := syscall.Mkfifo(path, 0o666)
			if err == nil {
				var f *os.File
				if f, err = os.OpenFile(path, os.O_RDWR, 0); err == nil {
					t.Cleanup(func() { _ = f.Close() })
				}
			}
			return err
		},
		"a dangling symbolic link": func(_ *testing.T, path string) error {
			return os.Symlink(filepath.Join(filepath.Dir(path), "elsewhere"), path)
		},
		"a directory": func(_ *testing.T, path string) error { return os.Mkdir(path, 0o777) },
		"a socket": func(t *testing.T, path string) error {
			t.Helper()
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
	} {
		for _, file := range []string{".r.fence", ".r.fence.lock"} {
			t.Run(name+" for "+file, func(t *testing.T) {
				t.Parallel()
				dir := memoryDir(t)
				if err := put(t, filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				f := open(t, filepath.Join(dir, "r"), filefence.Options{})
				_, err := f.Raise(t.Context(), fence.Run{Token: 7})
				if !isSetup(err, fence.Configuration) {
					t.Errorf("got %v", err)
				}
				if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("elsewhere: %v", err)
				}
			})
		}
	}
}
