package examples

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// newBackup is a world with a database to dump, which goes on until it is let go.
func newBackup(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.tool("dump-database", "echo dump >>$DIR/log", "seq 100000", "echo begun >>$DIR/log", "while ! test -e $DIR/go; do sleep 0.01; done", "seq 100001 200000")
	return w
}

// unzip returns the lines of a compressed file, or that it is none.
func (w *world) unzip(name string) (lines int, err error) {
	w.t.Helper()
	f, err := os.Open(w.path(name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return 0, err
	}
	all, err := io.ReadAll(z)
	return strings.Count(string(all), "\n"), err
}

func TestPipeline(t *testing.T) {
	t.Parallel()
	w := newBackup(t)
	w.write("db.gz", "the backup of yesterday")
	script := absolute(t, "pipeline/backup.sh")

	one := w.start(w.env, "", script, w.path("db.gz"))
	w.until("log", "begun")
	two := w.start(w.env, "", script, w.path("db.gz"))
	two.expect(0, "")
	if got := w.read("db.gz"); got != "the backup of yesterday" {
		t.Errorf("the host that skips changed the backup: %.40q", got)
	}
	w.write("go", "")
	one.expect(0, "")
	if lines, err := w.unzip("db.gz"); lines != 200000 || err != nil {
		t.Errorf("the backup has %d lines, want 200000; %v", lines, err)
	}
	if got := strings.Count(w.read("log"), "dump"); got != 1 {
		t.Errorf("%d dumps, want 1", got)
	}

	// A dump that fails half-way is a failure, and leaves the last good backup and nothing else.
	w.tool("dump-database", "seq 1000", "exit 9")
	w.start(w.env, "", script, w.path("db.gz")).expect(9, "")
	if lines, err := w.unzip("db.gz"); lines != 200000 || err != nil {
		t.Errorf("after a failure the backup has %d lines, want 200000; %v", lines, err)
	}
	if left := w.newBackups(); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// A run of which nobody can tell whether it leads does not replace the backup: here its leaderrun is stopped, and would be
// ended by its guardian some seconds later.
func TestPipelineAsksBeforeItReplaces(t *testing.T) {
	t.Parallel()
	w := newBackup(t)
	w.write("db.gz", "the backup of yesterday")
	h := w.start(w.env, "", absolute(t, "pipeline/backup.sh"), w.path("db.gz"))
	w.until("log", "begun")
	if err := servers.Freeze(h.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	w.write("go", "")
	servers.Eventually(t, "the command has ended", func() bool { return len(w.newBackups()) == 0 })
	if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code, output := h.wait(); code != 75 || !strings.Contains(output, "leaderrun: this run does not lead: ") {
		t.Errorf("code %d, want 75, and it says %q", code, output)
	}
	if got := w.read("db.gz"); got != "the backup of yesterday" {
		t.Errorf("the backup was replaced by %d bytes", len(got))
	}
}

// newBackups returns the files of backups that are being made.
func (w *world) newBackups() []string {
	w.t.Helper()
	names, err := filepath.Glob(w.path("db.gz.*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}
