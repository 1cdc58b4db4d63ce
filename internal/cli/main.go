// Package cli is the command line of leaderrun: what people type, what they are told, and the exit code.
// It alone knows flags, environment, configuration files and the terminal.
//
// The rules for what is said: nothing where all is well; one line for a warning or an error, lower case and
// without a full stop, what and why; where there is a remedy, a second line that begins with "hint:".
//
// This package is the frame: the application, options and settings, the console, exit codes, and the pages about the commands. The
// commands are in families below it, which know the frame and internal/launch, and not each other; internal/cli/all lists them.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/remedy"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/supervise/ahead"
	"github.com/leaderrun/leaderrun/runner"
)

// Main runs the program and says how it is to end. The command of a run gets stdin, stdout and stderr of this
// process as they are, not through these files; of leaderrun's own commands only `fence` reads stdin.
// begin starts what a run needs before its options are read. The commands of the families are those of Provide.
func Main(args []string, stdin, stdout, stderr *os.File, begin func(*Console) Early) ExitStatus {
	supervise.SurvivePipe()
	console := newConsole(stderr)
	if f := tooFewFiles(); f != nil {
		_, _ = stderr.Write(console.text(f.Error(), f.Hint)) // at once: the console's goroutine would need what is missing
		return ExitStatus{Code: f.Code}
	}
	defer console.Close()
	hearLibraries(console)
	boundMemory()
	var first sync.Once
	panics.Handle(func(p *panics.Panic) { // the deferred calls of others may hang: what they use may be what is broken
		first.Do(func() {
			console.panicked(p)
			console.Close()
			os.Exit(CodeInternal) //nolint:forbidigo // there is no way back to main.go
		})
	})
	var guarded Early
	if ahead.IsRun(args) { // its guardian starts on another thread while this one reads options and claims
		guarded = begin(console)
		defer guarded.Discard()
	}
	signals := captureSignals()
	return protected(console, func() ExitStatus { return dispatch(args, stdin, stdout, console, signals, guarded) })
}

// hearLibraries makes what packages write to the standard logger, above all net/http, debug events of ours: it is about a
// connection of which the request itself has an error, and may be anything that a server sends.
func hearLibraries(v *Console) {
	slog.SetDefault(slog.New(&SpokenLog{Console: v}))
	slog.SetLogLoggerLevel(slog.LevelDebug) // of package log
}

// memoryAim is what the garbage collector keeps memory below as long as less than that is in use, in bytes. Without it memory
// grows to twice what was ever in use, and the answers of a server may use some of it.
const memoryAim = 200 << 20

// boundMemory sets the aim, unless the environment has another one.
func boundMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(memoryAim)
	}
}

// fewFiles is a number of files with which nothing works: with eight and fewer the Go runtime ends the program, and prints what all
// of its goroutines do.
const fewFiles = 32

// tooFewFiles is the fault of a process that may open fewer; nil: it may open more. Then it has the runtime open its own files at once,
// as the limit may fall.
func tooFewFiles() *Fault {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < fewFiles {
		return &Fault{
			Code: CodeInternal, Why: fmt.Sprintf("this process may have %d open files, and needs more", limit.Cur),
			Hint: "raise the limit: ulimit -n 1024, or LimitNOFILE= of the unit",
		}
	}
	time.AfterFunc(time.Hour, func() {}).Stop()
	return nil
}

// captureSignals installs the handlers, on another thread while this one reads options, and returns what waits for that.
// It comes before all but the start of a guardian: a signal that comes earlier ends this process, as it would a second
// later, and there is nothing yet to be undone. One that comes when something was done must not be lost, and a second one
// not wait for us.
func captureSignals() func() <-chan syscall.Signal {
	installed := make(chan (<-chan syscall.Signal), 1)
	panics.Go(func() { installed <- supervise.CaptureSignals() })
	return func() <-chan syscall.Signal { return <-installed }
}

// protected makes a panic an error like others.
func protected(v *Console, f func() ExitStatus) (end ExitStatus) {
	defer func() {
		if p := recover(); p != nil {
			v.panicked(panics.Of(p))
			end = ExitStatus{Code: CodeInternal}
		}
	}()
	return f()
}

// panicked tells of a panic in one line: whoever reads the mail of a cron job cannot use a stack. Whoever asks for all that
// can be told gets that, too.
func (v *Console) panicked(p *panics.Panic) {
	v.Fault(&Fault{
		Code: CodeInternal, What: whatPanic, Why: p.Error(),
		Hint: "please report it, with what --log-level debug shows: https://github.com/leaderrun/leaderrun/issues",
	})
	v.Stack(p)
}

const whatPanic = "a fault of leaderrun itself"

// Stack tells where a panic came from, to whoever asks for all that can be told.
func (v *Console) Stack(p *panics.Panic) {
	for line := range strings.Lines(string(p.Stack)) {
		v.Event(runner.Event{Name: "stack", Level: slog.LevelDebug, Text: strings.TrimSpace(line)})
	}
}

// Early is what a call has begun before its options are read. discard ends it if it was not used, and waits for that.
type Early interface{ Discard() }

// Call is one call of one command.
type Call struct {
	Cmd      *Command
	Args     []string // what follows the options
	Settings *Settings
	Console  *Console
	Stdin    *os.File
	Stdout   io.Writer
	Signals  <-chan syscall.Signal
	Terminal bool  // stdout is one
	Ahead    Early // nil: nothing was begun

	Passed  chan syscall.Signal // those that ask the program to end, for a child: see context
	Written string              // what was done that a signal does not undo, in words

	mu       sync.Mutex
	received syscall.Signal
}

// SignalContext returns one that ends with the first signal that asks the program to end. That one and those after it are also
// put into c.passed, for who has a child.
func (c *Call) SignalContext() (context.Context, context.CancelFunc) {
	const pending = 16 // more are dropped: the second kills
	passed := make(chan syscall.Signal, pending)
	c.Passed = passed
	life, end := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(life)
	panics.Go(func() {
		for {
			select {
			case sig := <-c.Signals:
				if !supervise.EndsRun(sig) {
					continue
				}
				c.Interrupt(sig)
				cancel() // before a child can end well by the signal
				select {
				case passed <- sig:
				default:
				}
			case <-life.Done():
				return
			}
		}
	})
	return ctx, end
}

// Interrupt keeps the first signal.
func (c *Call) Interrupt(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.received == 0 {
		c.received = sig
	}
}

// Interrupted returns the signal that ended the context.
func (c *Call) Interrupted() syscall.Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}

// Finish turns what a command returned into the end of the program, and tells an error.
func (c *Call) Finish(end ExitStatus, err error) ExitStatus {
	sig := c.Interrupted()
	end = endOfCall(end, err, sig)
	switch {
	case sig != 0:
		c.tellWritten(end, err)
	case err != nil && !errors.Is(err, ErrNoReader):
		c.Console.Fault(err)
	}
	return end
}

// tellWritten tells who has ended the program by a signal what is there nevertheless, or may be. Other errors are what a signal
// makes of a command.
func (c *Call) tellWritten(end ExitStatus, err error) {
	f, failed := errors.AsType[*Fault](err)
	switch {
	case failed && f.Written:
		c.Console.Fault(&Fault{Code: end.Code, Why: err.Error(), Hint: HintOf(err), Err: err})
	case c.Written != "":
		c.Console.Fault(&Fault{Code: end.Code, Why: c.Written + " before the signal"})
	}
}

// ErrNoReader says that whoever read our output has gone.
var ErrNoReader = errors.New("nobody reads stdout")

// Print writes what was asked for.
func (c *Call) Print(text string) error {
	_, err := io.WriteString(c.Stdout, text)
	switch {
	case errors.Is(err, syscall.EPIPE):
		return ErrNoReader
	case err != nil:
		return &Fault{Code: CodeInternal, What: "stdout", Why: Reason(err), Err: err}
	}
	return nil
}

// HintOf returns the remedy for an error.
func HintOf(err error) string {
	if f, ok := errors.AsType[*Fault](err); ok && f.Hint != "" {
		return f.Hint
	}
	if e, ok := errors.AsType[*supervise.ExecError](err); ok {
		switch e.Errno { // the file was found before, and may be executed
		case syscall.ENOEXEC:
			return "is it a program for another kind of machine?"
		case syscall.ENOENT:
			return "the file is there; is the program that its first line (#!) names?"
		}
	}
	return remedy.Of(err)
}
