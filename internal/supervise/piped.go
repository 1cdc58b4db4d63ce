package supervise

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// RunPiped runs a command and hands what it prints to w, until it has ended and nobody has its stdout open any more: what it
// left behind may still write. stdin and stderr are those of this process, whose process group it stays in, so that it ends
// with the rest of a run. Signals that come are passed on to it, SIGTERM and SIGHUP followed by SIGCONT; a second SIGTERM or
// SIGINT kills it. One that was sent to the whole group reaches it twice. After a signal or a failure of the command nobody
// waits for what it left behind. Dir counts and Inherit does not.
//
// The error is an *ExecError where nothing was started, or the first one of w: then the command finds its stdout closed, and
// gets a SIGTERM.
func RunPiped(c Command, w io.Writer, signals <-chan syscall.Signal) (lifeline.Status, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return lifeline.Status{}, err
	}
	defer out.Close()
	child := &exec.Cmd{Path: c.Path, Args: c.Argv, Env: c.Env, Dir: c.Dir, Stdin: os.Stdin, Stdout: in, Stderr: os.Stderr}
	err = child.Start()
	_ = in.Close()
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		err = &ExecError{Path: c.Path, Errno: errno}
	}
	if err != nil {
		return lifeline.Status{}, err
	}
	copied := make(chan error, 1)
	panics.Go(func() {
		_, err := io.Copy(w, out)
		_ = out.Close() // after an error of w, so that the command does not wait for a reader
		copied <- err
	})
	ended := make(chan lifeline.Status, 1)
	panics.Go(func() {
		_ = child.Wait() // the state tells more
		ended <- statusOf(child.ProcessState)
	})
	return attend(child.Process, signals, ended, copied, out)
}

// attend passes signals on until the command has ended and all is copied that counts.
func attend(p *os.Process, signals <-chan syscall.Signal, ended <-chan lifeline.Status, copied <-chan error, out *os.File) (lifeline.Status, error) {
	var status lifeline.Status
	var failed error
	over, whole, signaled, asks := false, false, false, 0
	for !over || !whole {
		select {
		case sig := <-signals:
			signaled = true
			if !over {
				asks += ask(p, sig, asks)
			}
		case status = <-ended:
			over = true
		case failed = <-copied:
			whole = true
			if failed != nil && !over { // it may not mind a closed stdout
				asks += ask(p, syscall.SIGTERM, asks)
			}
		}
		if over && !whole && (signaled || status.ExitCode() != 0) {
			_ = out.Close() // which ends the copy
			if failed = <-copied; errors.Is(failed, os.ErrClosed) {
				failed = nil
			}
			whole = true
		}
	}
	return status, failed
}

// ask sends a signal to a command that was asked to end so many times, and returns 1 if this asks once more. Two are enough. One
// that is stopped sees a signal only when it goes on.
func ask(p *os.Process, sig syscall.Signal, asks int) (more int) {
	if lifeline.AsksToEnd(sig) {
		more = 1
		if asks > 0 {
			sig = syscall.SIGKILL
		}
	}
	_ = p.Signal(sig) // it may have ended just now
	if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
		_ = p.Signal(syscall.SIGCONT)
	}
	return more
}

// statusOf is how a process of ours ended.
func statusOf(s *os.ProcessState) lifeline.Status {
	if s == nil { // nobody could wait for it
		return lifeline.Status{}
	}
	status, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !status.Exited() && !status.Signaled():
		return lifeline.Status{}
	case status.Signaled():
		return lifeline.Status{Known: true, Signal: status.Signal()}
	}
	return lifeline.Status{Known: true, Code: status.ExitStatus()}
}
