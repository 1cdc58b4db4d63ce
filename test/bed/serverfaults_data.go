package bed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/test/servers"
)

// diskLost is a server that is killed and returns with nothing. excused says whether it then grants at once.
func (x *site) diskLost(excused bool) Fault {
	f := Fault{Name: "server killed, its disk lost", Peers: true, Excused: excused, Kills: true, Forgets: true}
	return x.fault(f, func(b *Bed) (func() error, error) { return x.lost(b, 0), nil })
}

// lost kills a server, and returns what starts it again with nothing.
func (x *site) lost(b *Bed, i int) func() error {
	x.servers[i].Kill()
	return func() error { x.servers[i].Restart(b.T, false); return nil }
}

// restored is a server, with the one that has its data, that goes back to what it knew when the fault began: the harm is
// done when it is mended.
func (x *site) restored() Fault {
	f := Fault{Name: "server restored from a backup", Peers: true, Excused: true, Forgets: true, AtLeast: usualTTL}
	return x.fault(f, func(b *Bed) (func() error, error) {
		data, backup, all := x.servers[0].Data(), servers.Dir(b.T), []int{}
		for i := range x.servers {
			all = append(all, i)
		}
		// Nothing moves while it is copied.
		err := x.signal(all, syscall.SIGSTOP)
		if err == nil {
			err = copyAll(data, backup)
		}
		if err := errors.Join(err, x.signal(all, syscall.SIGCONT)); err != nil {
			return nil, err
		}
		return func() error {
			for _, s := range x.servers {
				s.Kill()
			}
			if err := empty(data); err != nil {
				return err
			}
			return copyAll(backup, data)
		}, nil
	})
}

// copyAll copies what is in a folder, with its owners and modes.
func copyAll(from, to string) error {
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

// empty removes what is in a folder. The folder may be a disk of its own, and stays.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// outOfFiles is a server that cannot open another file, nor accept a connection.
func (x *site) outOfFiles() Fault {
	return x.fault(Fault{Name: "server out of file descriptors", Peers: true}, func(*Bed) (func() error, error) {
		pid := x.servers[0].PID()
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return nil, err
		}
		before, err := prlimit(pid, "--nofile", "--output", "SOFT", "--noheadings")
		if err != nil {
			return nil, err
		}
		_, err = prlimit(pid, fmt.Sprintf("--nofile=%d:", len(open)))
		return func() error {
			if x.servers[0].Ended() { // it could not bear it, and its successor has its own limit
				return nil
			}
			_, err := prlimit(pid, "--nofile="+before+":")
			return err
		}, err
	})
}

// prlimit changes or tells the limits of a process, prlimit(1), as the user whose it is: not every root may for another's.
func prlimit(pid int, words ...string) (string, error) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return "", err
	}
	words = append([]string{"prlimit", "--pid", strconv.Itoa(pid)}, words...)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		as := []string{"setpriv", "--reuid", fmt.Sprint(owner.Uid), "--regid", fmt.Sprint(owner.Gid), "--clear-groups"}
		words = append(as, words...)
	}
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("prlimit: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
