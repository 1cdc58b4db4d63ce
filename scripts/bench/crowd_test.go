package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func TestMain(m *testing.M) {
	// The command of a run is this program: one that ran the tests again would start ever more of itself.
	if len(os.Args) == 3 && (os.Args[1] == seatRole || os.Args[1] == stampRole) {
		if err := act(os.Args[1:]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestCrowd(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("needs flock(1) and /proc")
	}
	dir := t.TempDir()
	w := way{name: baseline, queue: func(job string) []string { return []string{flock, filepath.Join(dir, job)} }}
	const size = 3
	c, err := gather(dir, w, size)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		former := c.holder.pid
		h, err := c.handover()
		if err != nil {
			t.Fatal(err)
		}
		if h.gap <= 0 || c.holder.pid == former {
			t.Errorf("a handover from %d to %d took %v", former, c.holder.pid, h.gap)
		}
		if n, err := c.standing(); n != size || err != nil {
			t.Errorf("%d stand by after it: %v", n, err)
		}
		if waiting := c.waiting(); len(waiting) != size || len(c.members) != size+1 {
			t.Errorf("%d members, of which %d wait", len(c.members), len(waiting))
		}
	}
	if err := c.stand(0); err != nil || c.idle.memory <= 0 {
		t.Errorf("%+v: %v", c.idle, err)
	}
	if err := c.dismiss(); err != nil || len(c.members) > 0 {
		t.Errorf("%d are left: %v", len(c.members), err)
	}
}
