package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// A pseudo-terminal (pts(4)) with a session on it whose leader is a little shell: it runs a wrapper as
// its job, in the foreground, and continues it when the test says so.
type tty struct {
	t      *testing.T
	master *os.File
	shell  *exec.Cmd
	dir    string
	mark   string

	mu     sync.Mutex
	output strings.Builder
}

func openTerminal(t *testing.T, script string, change func(*wrapperOrder)) *tty {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("no pseudo-terminal here: ", err)
	}
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	r := &run{t: t, dir: t.TempDir(), mark: "LR_MARK=" + time.Now().Format(time.RFC3339Nano)}
	y := &tty{t: t, master: os.NewFile(uintptr(fd), "ptmx"), dir: r.dir, mark: r.mark}
	order := wrapperOrder{Dir: r.dir, Command: r.shell(script), Term: time.Hour}
	if change != nil {
		change(&order)
	}
	text, err := json.Marshal(order)
	must(t, err)
	y.shell = exec.Command(self(t), string(text), r.dir)
	y.shell.Env = append(os.Environ(), helperVariable+"=shell")
	y.shell.Stdin, y.shell.Stdout, y.shell.Stderr = slave, slave, slave
	y.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	must(t, y.shell.Start())
	must(t, slave.Close())
	go y.read()
	t.Cleanup(func() {
		for _, name := range []string{"wrapper", "job"} {
			pid, err := strconv.Atoi(strings.TrimSpace(readAll(filepath.Join(y.dir, name))))
			if err != nil {
				continue
			}
			// What has ended may have left its number to a server of another test.
			of := fmt.Sprintf("/proc/%d/", pid)
			if strings.Contains(readAll(of+"cmdline"), y.dir) || strings.Contains(readAll(of+"environ"), y.mark) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = y.shell.Process.Kill()
		_ = y.shell.Wait()
		eventually(t, "everything ended", func() bool { return len(marked(y.mark)) == 0 })
		_ = y.master.Close()
		if t.Failed() {
			y.mu.Lock()
			t.Logf("the terminal showed %q", y.output.String())
			y.mu.Unlock()
		}
	})
	return y
}

func readAll(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

func (y *tty) read() {
	var chunk [512]byte
	for {
		n, err := y.master.Read(chunk[:])
		if err != nil {
			return
		}
		y.mu.Lock()
		y.output.Write(chunk[:n])
		y.mu.Unlock()
	}
}

func (y *tty) run() *run { return &run{t: y.t, dir: y.dir, mark: y.mark} }

func (y *tty) key(s string) {
	y.t.Helper()
	_, err := y.master.WriteString(s)
	must(y.t, err)
}

func (y *tty) foreground() int {
	y.t.Helper()
	group, err := unix.IoctlGetInt(int(y.master.Fd()), unix.TIOCGPGRP)
	must(y.t, err)
	return group
}

// goesOn waits until the command has the terminal and was continued: a key that stops it would be
// undone by a SIGCONT that is still to come (signal(7)).
func (y *tty) goesOn(pid int) {
	y.t.Helper()
	eventually(y.t, "it has the terminal", func() bool { return y.foreground() == pid && state(pid) != "T" })
}

// ask tells the shell to do something with its job.
func (y *tty) ask(what string) {
	y.t.Helper()
	temporary := filepath.Join(y.dir, "asked")
	must(y.t, os.WriteFile(temporary, []byte(what), 0o600))
	must(y.t, os.Rename(temporary, filepath.Join(y.dir, "ask")))
}

// helperShell is the session's leader: job control reduced to what the tests need, credentials(7).
func helperShell(args []string) {
	dir := args[1]
	job := exec.Command("/proc/self/exe", args[0])
	job.Env = append(os.Environ(), helperVariable+"=wrapper")
	job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
	pipe := os.Getenv("LR_TEST_PIPE") != ""
	if pipe {
		out, err := os.Create(filepath.Join(dir, "out"))
		check(err)
		job.Stdout = out
	}
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	check(job.Start())
	pid := job.Process.Pid
	put(filepath.Join(dir, "job"), pid)
	go func() {
		for ; ; time.Sleep(2 * time.Millisecond) {
			what, err := os.ReadFile(filepath.Join(dir, "ask"))
			if err != nil {
				continue
			}
			_ = os.Remove(filepath.Join(dir, "ask"))
			if string(what) == "fg" {
				setForeground(0, pid)
			}
			_ = syscall.Kill(-pid, syscall.SIGCONT)
		}
	}()
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		check(err)
		setForeground(0, syscall.Getpgrp())
		if got == pid && !ws.Stopped() {
			put(filepath.Join(dir, "job-ended"), int(ws))
			forever()
		}
		put(filepath.Join(dir, "job-stopped"), ws.StopSignal())
	}
}

const waitsForKeys = `echo $$ >pid; read line; echo "$line" >read; read line; echo "$line" >again`

func TestCtrlCGoesToTheCommandOnce(t *testing.T) {
	// Not with read: a shell that is about to read when the signal comes acts on it when there is a line.
	y := openTerminal(t, `trap 'echo >interrupted; exit 7' INT; echo $$ >pid; while :; do sleep 0.01; done`, nil)
	pid := y.run().pid("pid")
	y.goesOn(pid)
	y.key("\x03")
	y.run().file("interrupted")
	if got := y.run().file(eventFile(lifeline.Dead)); got != "7" {
		t.Errorf("exit code %s", got)
	}
	if got := y.run().file("job-ended"); got != "0" {
		t.Errorf("the wrapper ended with %s", got)
	}
}

func TestCtrlZStopsTheJobAndFgGoesOn(t *testing.T) {
	y := openTerminal(t, waitsForKeys, nil)
	pid := y.run().pid("pid")
	wrapper := y.run().pid("wrapper")
	for round := range 3 {
		y.goesOn(pid)
		y.key("\x1a")
		y.run().file("job-stopped")
		if warned := y.run().file("warned"); !strings.Contains(warned, "unless continued") {
			t.Errorf("warned %q", warned)
		}
		if state(pid) != "T" || state(wrapper) != "T" {
			t.Errorf("round %d: the command is %s, the wrapper %s", round, state(pid), state(wrapper))
		}
		must(t, os.Remove(filepath.Join(y.dir, "job-stopped")))
		must(t, os.Remove(filepath.Join(y.dir, "warned")))
		y.ask("fg")
	}
	y.goesOn(pid)
	y.key("on\n")
	if got := y.run().file("read"); got != "on" {
		t.Errorf("read %q", got)
	}
	// In the background it is stopped as soon as it reads, and the whole job with it.
	y.key("\x1a")
	y.run().file("job-stopped")
	must(t, os.Remove(filepath.Join(y.dir, "job-stopped")))
	y.ask("bg")
	y.run().file("job-stopped")
	y.ask("fg")
	y.goesOn(pid)
	y.key("end\n")
	if got := y.run().file("again"); got != "end" {
		t.Errorf("read %q", got)
	}
	y.run().file("job-ended")
	eventually(t, "the terminal is the shell's again", func() bool { return y.foreground() == y.shell.Process.Pid })
}

func state(pid int) string {
	text := readAll("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(text, ") ")
	return rest[:min(1, len(rest))]
}

func TestTheTerminalLeavesNoTraceInTheCommand(t *testing.T) {
	y := openTerminal(t, `grep -E '^Sig(Ign|Blk)' /proc/self/status >signals; echo $$ >pid; read line`, nil)
	pid := y.run().pid("pid")
	y.goesOn(pid)
	mask := func(line string) uint64 {
		_, text, _ := strings.Cut(line, ":")
		set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		must(t, err)
		return set
	}
	allowed := uint64(libcSignals)
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigIgn:") { // as nohup(1) has started the tests
			allowed |= mask(line)
		}
	}
	for _, line := range splitLines([]byte(y.run().file("signals"))) {
		if mask(line)&^allowed != 0 {
			t.Errorf("%q", line)
		}
	}
	// The wrapper is in the background now, and writes all the same.
	y.run().pid("wrapper")
	y.key("end\n")
	y.run().file("job-ended")
}

// `leaderrun run j cmd | pager`: the command stays in the job's group.
func TestInAPipelineTheCommandStaysInTheGroup(t *testing.T) {
	t.Setenv("LR_TEST_PIPE", "1")
	y := openTerminal(t, `trap 'echo x >>interrupted' INT; echo $$ >pid; while :; do sleep 0.01; done`, nil)
	pid, job := y.run().pid("pid"), y.run().pid("job")
	if group, err := syscall.Getpgid(pid); err != nil || group != job {
		t.Errorf("its group is %d, the job's %d", group, job)
	}
	y.run().pid("wrapper")
	y.key("\x1a")
	y.run().file("job-stopped")
	y.run().file("warned")
	y.ask("fg")
	eventually(t, "it goes on", func() bool { return state(pid) != "T" && y.foreground() == job })
	guardian := y.run().pid("guardian")
	if group, err := syscall.Getpgid(guardian); err != nil || group == job {
		t.Errorf("the guardian's group is %d", group)
	}
}
