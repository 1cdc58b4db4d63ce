package bed

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// disk is a small file system in memory. Where none can be mounted it is a folder, and has no faults.
type disk struct {
	dir    string
	small  bool
	strain func() error // has the store write more than its last block has room for; nil: it does by itself, and soon
}

func newDisk(t testing.TB, size string) *disk {
	t.Helper()
	d := &disk{dir: servers.OpenDir(t)}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=0700,size="+size, "none", d.dir).CombinedOutput(); err != nil {
		t.Logf("no disk of its own, so none that is full: %v: %s", err, out)
		return d
	}
	d.small = true
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", d.dir).Run() })
	return d
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill writes until nothing more fits.
func (d *disk) fill() error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size > 0; size /= 16 {
		block := make([]byte, size)
		for err == nil {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		err = nil
	}
	return nil
}

// full is a disk that is full for some time, until the store needs room on it. Who has no such disk has no such fault.
func (d *disk) full(x *site) []Fault {
	if !d.small {
		return nil
	}
	return []Fault{x.fault(Fault{Name: "disk full", Peers: true, AtLeast: 2 * usualTTL}, func(*Bed) (func() error, error) {
		err := d.fill()
		if err == nil && d.strain != nil {
			err = d.strain()
		}
		return func() error { return os.Remove(d.filler()) }, err
	})}
}
