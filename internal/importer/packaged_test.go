package importer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

func TestDigestsOfDpkg(t *testing.T) {
	status := filepath.Join(t.TempDir(), "status")
	text := "Package: a\nConffiles:\n /etc/cron.d/a 0cc175b9c0f1b6a831c399e269772661\n /etc/cron.d/old 92eb5ffee6ae2fec3ad71c777531578f obsolete\nDescription: a\n"
	if err := os.WriteFile(status, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := dpkgDigests(status)
	if len(got) != 1 || !slices.Equal(got["/etc/cron.d/a"], []string{"0cc175b9c0f1b6a831c399e269772661"}) {
		t.Errorf("%q", got)
	}
}

func TestPackagedFilesStay(t *testing.T) {
	sources := []Source{{Path: "/etc/cron.d/a", Text: []byte("0 2 * * * root a\n"), Format: crontab.System}, {Path: "/etc/cron.d/b", Text: []byte("0 2 * * * root b\n"), Format: crontab.System}}
	files, notes := Import(sources, Options{Packaged: map[string]bool{"/etc/cron.d/a": true}})
	if len(files[0].Jobs) != 0 || len(files[1].Jobs) != 1 || len(notes) != 1 || !strings.Contains(notes[0].Why, "as its package brought it") {
		t.Errorf("%+v", notes)
	}
}
