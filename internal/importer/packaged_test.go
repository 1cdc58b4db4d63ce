package importer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
