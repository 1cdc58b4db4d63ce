package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A daemon says why it cannot write files of metrics when it starts, and then only what is new: whichever job comes to know.
func TestTextfilesTellWhatIsNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prom")
	var said bytes.Buffer
	v := &console{out: &said, level: slog.LevelWarn}
	files := newTextfiles(v, dir)
	write := func(jobs ...string) {
		for _, job := range jobs {
			files.write(job, files.begin(job))
		}
	}
	files.look()
	write("a", "b", "a", "b")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write("a", "b")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write("b", "a", "b")
	v.close()
	const line = "leaderrun: --metrics-textfile: open "
	if n := strings.Count(said.String(), line); n != 2 || strings.Count(said.String(), "hint: make the directory") != 2 {
		t.Errorf("told %d times, want at the start and when the directory was gone again:\n%s", n, said.String())
	}
}

// One job's error is not another's: neither hides the other, and none comes twice.
func TestTextfilesTellOfEachJob(t *testing.T) {
	files := newTextfiles(&console{}, "none")
	full, foreign := errors.New("the disk is full"), errors.New("a's file is foreign")
	for i, c := range []struct {
		job  string
		err  error
		news bool
	}{
		{"a", foreign, true},
		{"b", nil, false},
		{"a", foreign, false},
		{"b", full, true},
		{"a", full, false},
		{"b", full, false},
		{"a", foreign, true},
		{"b", nil, false},
		{"a", nil, false},
		{"a", foreign, true},
	} {
		if got := files.isNews(c.job, c.err); got != c.news {
			t.Errorf("%d: %s: %v is news: %v, want %v", i, c.job, c.err, got, c.news)
		}
	}
	files.isNews("b", nil)
	files.forget("a")
	if !files.isNews("a", foreign) {
		t.Error("a job that was forgotten is remembered")
	}
}
