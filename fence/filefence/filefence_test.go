package filefence_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/filefence"
)

// memoryDir is a directory on a file system that needs no disk, where there is one: for tests of which none looks at the disk.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "filefence") //nolint:usetesting // that one is on the disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func open(t testing.TB, path string, o filefence.Options) *filefence.File {
	t.Helper()
	f, err := filefence.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func raise(t testing.TB, f *filefence.File, token int64) *filefence.Writer {
	t.Helper()
	w, err := f.Raise(t.Context(), fence.Run{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func replace(t testing.TB, w *filefence.Writer, text string) {
	t.Helper()
	if err := w.Replace(t.Context(), write(text)); err != nil {
		t.Fatal(err)
	}
}

// holds compares the content of a file, "" for none.
func holds(t testing.TB, path, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if string(text) != want {
		t.Errorf("%s holds %.60q, want %.60q", path, text, want)
	}
}

// contains compares the names in a directory.
func contains(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("%s contains %q, want %q", dir, names, want)
	}
}

func isStale(err error) bool {
	_, ok := errors.AsType[*fence.StaleError](err)
	return ok
}

// isSetup says whether the error is one of setup, of that kind, with a remedy.
func isSetup(err error, kind fence.SetupKind) bool {
	setup, ok := errors.AsType[*fence.SetupError](err)
	return ok && setup.Kind == kind && setup.Hint != ""
}

func TestSuite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memoryDir(t), "report")
	fencetest.Run(t, fencetest.Subject{
		Size: 16 << 10,
		Read: func(t testing.TB) string {
			text, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			return string(text)
		},
		Writer: func(t testing.TB, r fence.Run, gate *fencetest.Gate) fencetest.Writer {
			f := open(t, path, filefence.Options{LockWait: time.Minute})
			f.Step(gate.Step)
			var w *filefence.Writer
			return fencetest.Writer{
				Raise: func(ctx context.Context) (err error) {
					w, err = f.Raise(ctx, r)
					return err
				},
				Write: func(ctx context.Context, value string) error {
					return w.Replace(ctx, func(to io.Writer) error {
						half := len(value) / 2
						_, first := io.WriteString(to, value[:half])
						_, second := io.WriteString(to, value[half:])
						return errors.Join(first, second)
					})
				},
			}
		},
	})
	contains(t, filepath.Dir(path), ".report.fence", ".report.fence.lock", "report")
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	path := filepath.Join(dir, "report")
	f := open(t, path, filefence.Options{})
	contains(t, dir) // to look writes nothing
	w := raise(t, f, 7)
	contains(t, dir, ".report.fence", ".report.fence.lock")
	holds(t, f.State(), "7\n")
	replace(t, w, "one")
	holds(t, path, "one")
	replace(t, w, "") // an empty file is content
	holds(t, path, "")
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	replace(t, raise(t, open(t, path, filefence.Options{}), 7), "again") // the same run, in another process
	holds(t, path, "again")

	newer := raise(t, open(t, path, filefence.Options{}), 9)
	holds(t, f.State(), "9\n")
	err := w.Replace(t.Context(), func(io.Writer) error { t.Error("content was asked for that can only be refused"); return nil })
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || *stale != (fence.StaleError{Resource: path, Token: 7, Highest: 9}) {
		t.Errorf("the older run: %v", err)
	}
	if _, err := f.Raise(t.Context(), fence.Run{Token: 8}); !isStale(err) {
		t.Errorf("a run in between: %v", err)
	}
	holds(t, path, "again")
	replace(t, newer, "new")
	holds(t, path, "new")
	holds(t, f.State(), "9\n")
	contains(t, dir, ".report.fence", ".report.fence.lock", "report")
}

// Hazard: content that is not complete is taken for content.
func TestContentThatFails(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	path := filepath.Join(dir, "report")
	w := raise(t, open(t, path, filefence.Options{}), 1)
	replace(t, w, "old")
	failed := errors.New("cut off")
	err := w.Replace(t.Context(), func(to io.Writer) error {
		return errors.Join(write("half")(to), failed)
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = w.Replace(ctx, func(to io.Writer) error {
		cancel()
		return write("half")(to)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended in the middle: %v", err)
	}
	holds(t, path, "old")
	contains(t, dir, ".report.fence", ".report.fence.lock", "report")
}

// Hazard: somebody goes on writing into a file that has been committed.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memoryDir(t), "report")
	f := open(t, path, filefence.Options{})
	w := raise(t, f, 1)
	var kept io.Writer
	f.Step(func(place string) {
		if kept != nil && place == "before the rename" {
			if err := write("more")(kept); !errors.Is(err, os.ErrClosed) {
				t.Errorf("a write while it is committed: %v", err)
			}
		}
	})
	if err := w.Replace(t.Context(), func(to io.Writer) error { kept = to; return write("whole")(to) }); err != nil {
		t.Fatal(err)
	}
	if err := write("more")(kept); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a write after the end: %v", err)
	}
	holds(t, path, "whole")
}

func TestFilesShareAFence(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	older := raise(t, open(t, a, filefence.Options{Resource: "both"}), 1)
	replace(t, older, "old")
	replace(t, raise(t, open(t, b, filefence.Options{Resource: "both"}), 2), "new")
	if err := older.Replace(t.Context(), write("late")); !isStale(err) || !strings.Contains(err.Error(), "both") {
		t.Errorf("a run that was overtaken at the other file: %v", err)
	}
	holds(t, a, "old")
	contains(t, dir, ".both.fence", ".both.fence.lock", "a", "b")
}
