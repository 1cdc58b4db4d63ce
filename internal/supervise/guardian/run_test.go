package guardian

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// A wrapper that is stopped for long takes no message. Its guardian waits for that without turning in circles.
func TestADeadTreeIsNoReasonToHurry(t *testing.T) {
	g := &guardian{phase: dead, pid: 1, out: []byte("a message"), deadline: lifeline.Deadline{End: 1}}
	now := boottime.Now()
	if at := g.next(); at <= now {
		t.Errorf("nothing is left to do, and the next look was due %v ago", now.Sub(at))
	}
	g.locks, g.deadline.End = []int{-1}, now.Add(time.Millisecond)
	if at := g.next(); at != g.deadline.End {
		t.Errorf("locks are given back %v late", at.Sub(g.deadline.End))
	}
}

// The number of a command that was reaped may be another one's by the time that its leftovers end. That is an orphan like others.
func TestAReapedCommandEndsOnce(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := NewConn(ends[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer syscall.Close(ends[1])
	orphan := exec.Command("/bin/sh", "-c", "exit 7")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	defer orphan.Process.Release()
	first := lifeline.Status{Known: true, Code: 3}
	g := &guardian{phase: guarding, conn: conn, pid: orphan.Process.Pid, status: first}
	for g.reap(); !g.childless; g.reap() {
		time.Sleep(time.Millisecond)
	}
	if g.status != first {
		t.Errorf("the command ended with %+v, and later with %+v", first, g.status)
	}
	if err := syscall.SetNonblock(ends[1], true); err != nil {
		t.Fatal(err)
	}
	if n, err := syscall.Read(ends[1], make([]byte, 64)); err != syscall.EAGAIN {
		t.Errorf("the end of the command was told again: %d bytes (%v)", n, err)
	}
}
