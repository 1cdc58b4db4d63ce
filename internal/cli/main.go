// Package cli is the command line of leaderrun: what people type, what they are told, and the exit code.
// It alone knows flags, environment, configuration files and the terminal.
//
// The rules for what is said: nothing where all is well; one line for a warning or an error, lower case and
// without a full stop, what and why; where there is a remedy, a second line that begins with "hint:".
//
// What every command has is in main, app, parse, arguments, options, settings, config, store, console, visible, show and exit; pages about
// the commands are in help, man, jobfilepage and completion. run has a claim for its trigger, a child, a socket for checks and a reporter, and
// where it is divided a crew (shards, workers). cron* runs many such at a time. status*, history, break*, forget and local are the operators',
// on operator and slots. doctor*, fence*, import, lint and next stand alone.
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
func Main(args []string, stdin, stdout, stderr *os.File) ExitStatus {
	supervise.SurvivePipe()
	console := newConsole(stderr)
	if f := tooFewFiles(); f != nil {
		_, _ = stderr.Write(console.text(f.Error(), f.hint)) // at once: the console's goroutine would need what is missing
		return ExitStatus{Code: f.code}
	}
	defer console.close()
	hearLibraries(console)
	boundMemory()
	var first sync.Once
	panics.Handle(func(p *panics.Panic) { // the deferred calls of others may hang: what they use may be what is broken
		first.Do(func() {
			console.panicked(p)
			console.close()
			os.Exit(codeInternal) //nolint:forbidigo // there is no way back to main.go
		})
	})
	var guarded *tree
	if ahead.IsRun(args) { // its guardian starts on another thread while this one reads options and claims
		guarded = newTree(console)
		defer guarded.close()
	}
	signals := captureSignals()
	return protected(console, func() ExitStatus { return dispatch(args, stdin, stdout, console, signals, guarded) })
}

// hearLibraries makes what packages write to the standard logger, above all net/http, debug events of ours: it is about a
// connection of which the request itself has an error, and may be anything that a server sends.
func hearLibraries(v *console) {
	slog.SetDefault(slog.New(&spokenLog{console: v}))
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
func tooFewFiles() *fault {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < fewFiles {
		return &fault{
			code: codeInternal, why: fmt.Sprintf("this process may have %d open files, and needs more", limit.Cur),
			hint: "raise the limit: ulimit -n 1024, or LimitNOFILE= of the unit",
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
func protected(v *console, f func() ExitStatus) (end ExitStatus) {
	defer func() {
		if p := recover(); p != nil {
			v.panicked(panics.Of(p))
			end = ExitStatus{Code: codeInternal}
		}
	}()
	return f()
}

// panicked tells of a panic in one line: whoever reads the mail of a cron job cannot use a stack. Whoever asks for all that
// can be told gets that, too.
func (v *console) panicked(p *panics.Panic) {
	v.fault(&fault{
		code: codeInternal, what: whatPanic, why: p.Error(),
		hint: "please report it, with what --log-level debug shows: https://github.com/leaderrun/leaderrun/issues",
	})
	v.stack(p)
}

const whatPanic = "a fault of leaderrun itself"

// stack tells where a panic came from, to whoever asks for all that can be told.
func (v *console) stack(p *panics.Panic) {
	for line := range strings.Lines(string(p.Stack)) {
		v.event(runner.Event{Name: "stack", Level: slog.LevelDebug, Text: strings.TrimSpace(line)})
	}
}

// call is one call of one command.
type call struct {
	cmd      *command
	args     []string // what follows the options
	settings *settings
	console  *console
	stdin    *os.File
	stdout   io.Writer
	signals  <-chan syscall.Signal
	terminal bool  // stdout is one
	ahead    *tree // with a guardian that is already starting; nil: none

	passed  chan syscall.Signal // those that ask the program to end, for a child: see context
	written string              // what was done that a signal does not undo, in words

	mu       sync.Mutex
	received syscall.Signal
}

// context returns one that ends with the first signal that asks the program to end. That one and those after it are also
// put into c.passed, for who has a child.
func (c *call) context() (context.Context, context.CancelFunc) {
	const pending = 16 // more are dropped: the second kills
	passed := make(chan syscall.Signal, pending)
	c.passed = passed
	life, end := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(life)
	panics.Go(func() {
		for {
			select {
			case sig := <-c.signals:
				if !supervise.EndsRun(sig) {
					continue
				}
				c.interrupt(sig)
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

// interrupt keeps the first signal.
func (c *call) interrupt(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.received == 0 {
		c.received = sig
	}
}

// interrupted returns the signal that ended the context.
func (c *call) interrupted() syscall.Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}

// finish turns what a command returned into the end of the program, and tells an error.
func (c *call) finish(end ExitStatus, err error) ExitStatus {
	sig := c.interrupted()
	end = endOfCall(end, err, sig)
	switch {
	case sig != 0:
		c.tellWritten(end, err)
	case err != nil && !errors.Is(err, errNoReader):
		c.console.fault(err)
	}
	return end
}

// tellWritten tells who has ended the program by a signal what is there nevertheless, or may be. Other errors are what a signal
// makes of a command.
func (c *call) tellWritten(end ExitStatus, err error) {
	switch {
	case mayBeWritten(err):
		c.console.fault(&fault{code: end.Code, why: err.Error(), hint: hintOf(err), err: err})
	case c.written != "":
		c.console.fault(&fault{code: end.Code, why: c.written + " before the signal"})
	}
}

// errNoReader says that whoever read our output has gone.
var errNoReader = errors.New("nobody reads stdout")

// print writes what was asked for.
func (c *call) print(text string) error {
	_, err := io.WriteString(c.stdout, text)
	switch {
	case errors.Is(err, syscall.EPIPE):
		return errNoReader
	case err != nil:
		return &fault{code: codeInternal, what: "stdout", why: reason(err), err: err}
	}
	return nil
}

// hintOf returns the remedy for an error.
func hintOf(err error) string {
	if f, ok := errors.AsType[*fault](err); ok && f.hint != "" {
		return f.hint
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
