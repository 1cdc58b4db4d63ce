package supervise

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// terminal is the job control of one run, credentials(7) and termios(3). Nil: there is no terminal, and
// the command has a session and a group of its own.
//
// Where stdin and stdout are the terminal and we are its foreground job, the command gets a group of its
// own, and we hand the terminal over: the guardian, in the background, could only do so with SIGTTOU
// ignored, and the command would inherit that. What the command touched of the terminal before stopped
// it (SIGTTIN, SIGTTOU), and SIGCONT lets it go on. Otherwise the command stays in our group, so that
// the shell's job control reaches it as it reaches us.
type terminal struct {
	foreground bool // the command has its own group and the terminal
	group      int  // ours
	fd         int

	mu      sync.Mutex
	command int // group of the command while it has or may get the terminal
	signals chan os.Signal
}

const (
	stdin  = 0
	stdout = 1
)

// findTerminal looks at what this process was started on. It is called when a run starts, because the
// shell may have moved a standby between foreground and background.
func findTerminal() *terminal {
	if !guardian.ControllingTerminal() {
		return nil
	}
	t := &terminal{group: unix.Getpgrp(), fd: stdin}
	// tcgetpgrp(3) fails on anything but the controlling terminal.
	in, inErr := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	out, outErr := unix.IoctlGetInt(stdout, unix.TIOCGPGRP)
	t.foreground = inErr == nil && outErr == nil && in == t.group && out == t.group
	return t
}

// sharedGroup is the group that the command joins, 0: one of its own.
func (t *terminal) sharedGroup() int {
	if t == nil || t.foreground {
		return 0
	}
	return t.group
}

// delivers tells whether the terminal itself has sent the signal to the command, which shares our group.
func (t *terminal) delivers(n syscall.Signal) bool {
	return t.sharedGroup() != 0 && (n == syscall.SIGINT || n == syscall.SIGQUIT || n == syscall.SIGTSTP)
}

// commandStarted hands the terminal over, and watches for Ctrl-Z.
func (t *terminal) commandStarted(g *Guard, pid int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.signals = make(chan os.Signal, 4)
	signal.Notify(t.signals, syscall.SIGTSTP, syscall.SIGCONT)
	signals := t.signals
	panics.Go(func() { t.watch(g, signals) })
	if t.foreground {
		// We are in the background now, and a warning of ours must not stop us where the terminal says so
		// (stty tostop). No command inherits this: every guardian lifts it before it starts one.
		signal.Ignore(syscall.SIGTTOU)
		// If it was stopped already, that is told next, and commandStopped lets it go on.
		t.command = pid
		t.handOver()
	}
}

// handOver needs t.mu. It gives the command the terminal if that is ours to give.
func (t *terminal) handOver() {
	if t.command == 0 {
		return
	}
	if holder, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && holder == t.group {
		setForeground(t.fd, t.command)
	}
}

func (g *Guard) continueCommand() {
	g.send(guardian.Message{Kind: guardian.Signal, Numbers: []int64{int64(syscall.SIGCONT)}})
}

// takeBack makes us the foreground again, if the command was: it has ended.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reclaim()
	t.command = 0
}

// reclaim needs t.mu.
func (t *terminal) reclaim() {
	if t.command == 0 {
		return
	}
	if holder, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && holder == t.command {
		setForeground(t.fd, t.group)
	}
}

// release ends the watch over job control.
func (t *terminal) release() {
	if t == nil {
		return
	}
	t.takeBack()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.signals != nil {
		signal.Stop(t.signals)
		close(t.signals)
		t.signals = nil
		if t.foreground {
			signal.Reset(syscall.SIGTTOU)
		}
	}
}

// commandStopped: a signal stopped the command. Because it touched the terminal before it had it, or
// because somebody pressed Ctrl-Z: then we stop too, as the shell expects of its job.
func (t *terminal) commandStopped(g *Guard, n syscall.Signal) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.command == 0 || t.signals == nil {
		return
	}
	holder, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	early := err == nil && holder == t.command && (n == syscall.SIGTTIN || n == syscall.SIGTTOU)
	if early || t.orphaned() {
		g.continueCommand()
		return
	}
	t.reclaim()
	t.warn(g)
	select { // whoever waits in watch stops us, without holding up the guardian's messages
	case t.signals <- stopNow{}:
	default:
	}
}

// orphaned tells whether nobody would continue us: no shell of our session has us as its job. The
// terminal does not stop such a group (setpgid(2), orphaned process groups), and the command would not
// have been stopped in our place.
func (t *terminal) orphaned() bool {
	leader, ok := tree.Stat(t.group)
	if !ok {
		return false
	}
	parent, ok := tree.Stat(leader.Parent)
	return ok && parent.Session != leader.Session
}

// stopNow asks watch to stop this process.
type stopNow struct{}

func (stopNow) Signal()        {}
func (stopNow) String() string { return "stop" }

// watch stops us when the command was stopped or the terminal says so, and gives the terminal back when
// we are continued, now or later (bg, then fg).
func (t *terminal) watch(g *Guard, signals <-chan os.Signal) {
	for s := range signals {
		switch s {
		case syscall.SIGCONT:
			t.mu.Lock()
			t.handOver()
			t.mu.Unlock()
			if t.foreground {
				g.continueCommand()
			}
		case syscall.SIGTSTP:
			if t.foreground {
				// Not from the terminal, which is the command's: pass it on, and follow when it has stopped.
				g.Signal(syscall.SIGTSTP)
				continue
			}
			t.mu.Lock()
			t.warn(g)
			t.mu.Unlock()
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
		case stopNow{}:
			t.stopJob()
		}
	}
}

// stopJob stops this process, and with it the rest of the job that the shell started us in, as the
// terminal would have: a script that waits for us would otherwise hide from the shell that we stopped.
func (t *terminal) stopJob() {
	t.mu.Lock()
	if t.signals == nil { // the run ended meanwhile
		t.mu.Unlock()
		return
	}
	signal.Ignore(syscall.SIGTSTP)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	signal.Notify(t.signals, syscall.SIGTSTP)
	t.mu.Unlock()
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
}

// warn needs t.mu. Each stop is worth one line: the lease is not renewed while we are stopped.
func (t *terminal) warn(g *Guard) {
	left := g.timeLeft()
	g.warn(fmt.Sprintf("stopped: the run ends in %d s unless continued", int(left/time.Second)))
}

func (g *Guard) timeLeft() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.watch.sent.Term.Sub(boottime.Now()), 0)
}

// setForeground is tcsetpgrp(3). A background process that calls it gets SIGTTOU unless that is blocked
// or ignored; blocked on this thread alone, nothing of it is inherited by a child.
func setForeground(fd, group int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore := blockTTOU()
	defer restore()
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group)
}
