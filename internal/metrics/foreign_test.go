package metrics

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A folder that others may write can have anything in the places of our files. Nothing of it is waited for or followed.
func TestTextfileAmongForeignFiles(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":            func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"a link to nothing": func(path string) error { return os.Symlink("elsewhere", path) },
		"a link to a file":  func(path string) error { return os.Symlink("file", path) },
		"a directory":       func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		for _, file := range []string{lockName, "leaderrun_job.prom", ".leaderrun_job.tmp"} {
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := put(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				switch err := skip(dir, "job"); { // and returns
				case file == ".leaderrun_job.tmp" && err != nil:
					t.Error(err)
				case file != ".leaderrun_job.tmp" && (err == nil || !strings.Contains(err.Error(), file)):
					t.Errorf("error %v does not name the file", err)
				}
				if file != lockName && name != "a directory" {
					shows(t, contentOf(t, dir, "job"), `runs_total{job="job",outcome="skipped_held"} 1`)
				}
				if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); err == nil {
					t.Error("a file was made where a link points to")
				}
				if text, err := os.ReadFile(filepath.Join(dir, "file")); string(text) != "kept" {
					t.Errorf("the file that a link points to holds %q, %v", text, err)
				}
			})
		}
	}
}
