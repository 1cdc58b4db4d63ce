package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/remedy"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// Of a disk that is full, claims and ends say so, with the remedy: it may pass.
func TestFullDisk(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size=64k"); err != nil {
		servers.Lack(t, "root", fmt.Sprintf("mount: %v", err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	waste := filepath.Join(dir, "waste")
	if err := os.WriteFile(waste, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_, claim := d.Acquire(t.Context(), claimFor("other"))
	end := d.Finish(t.Context(), g, backends.Outcome{State: backends.Done})
	for what, err := range map[string]error{"a claim": claim, "an end": end} {
		if !errors.Is(err, syscall.ENOSPC) || backends.IsAnswer(err) || remedy.Of(err) == "" {
			t.Errorf("%s: %v, with the remedy %q", what, err, remedy.Of(err))
		}
	}
	if err := os.Remove(waste); err != nil {
		t.Fatal(err)
	}
	steps.Finish(d, g)
}

func TestNoRoom(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		err := permanent(fmt.Errorf("write: %w", errno))
		if remedy.Of(err) == "" || backends.IsAnswer(err) || !errors.Is(err, errno) {
			t.Errorf("%v: the remedy is %q", err, remedy.Of(err))
		}
	}
}
