package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/daemon"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/metrics"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	lastOutput   = 10 * time.Second // how long the end of an attempt waits for its output to be written
	pathVariable = "PATH"
)

// launcher starts the commands of a daemon's jobs, and tells what becomes of them.
type launcher struct {
	call      *call
	null      *os.File     // stdin of jobs that have none
	metrics   *metrics.Set // nil: nobody asks
	textfiles *textfiles   // nil: nobody asks
	sockets   socketHome
	begin     func(supervise.Options) *supervise.Pending // starts a guardian

	files      hangable
	lastOutput time.Duration
	output     sync.Mutex // of prefixed lines
}

func newLauncher(c *call, textfile string) (*launcher, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, &fault{code: codeInternal, what: os.DevNull, why: reason(err), err: err}
	}
	return &launcher{
		call: c, null: null, sockets: socketHome{shared: c.how().System}, textfiles: newTextfiles(c.console, textfile),
		begin: supervise.Begin, lastOutput: lastOutput,
	}, nil
}

// removed forgets what was counted of a job that is not run any more.
func (l *launcher) removed(job string) {
	if l.metrics != nil {
		l.metrics.Forget(job)
	}
	l.textfiles.forget(job)
}

// launch is one attempt's connection to the world: it starts the command, several times where that is repeated. It
// implements daemon.Launch.
type launch struct {
	*launcher
	job      *jobfile.Job
	site     site // as Look has found it
	socket   *socket
	env      func(backends.Grant) []string
	tokenEnv string         // one more variable that has the token
	copies   sync.WaitGroup // of prefixed output
	pipes    pipes          // our ends of those of the commands
	reporter *reporter
	file     *metrics.Textfile // nil: nobody asks
}

func (l *launcher) launch(job *jobfile.Job) daemon.Launch {
	a := l.prepare(job)
	a.reporter.inFile = true
	return a
}

// prepare makes what one attempt of a job needs, in a process that has several at a time. The job may be a shard of one.
func (l *launcher) prepare(job *jobfile.Job) *launch {
	a := &launch{
		launcher: l, job: job, tokenEnv: tokenVariable,
		reporter: &reporter{console: l.call.console, job: job.Name, prefix: job.Name + ": "},
		socket:   newSocket(func(text, hint string) { l.call.console.warn(job.Name+": "+text, hint) }),
	}
	a.reporter.trigger.StartDeadline = job.StartDeadline
	a.socket.home = &l.sockets
	a.socket.owner = func() *supervise.Credential { return a.site.as }
	a.env = a.socket.env(func(g backends.Grant) []string { return append(grantVariables(g, a.tokenEnv), shardVariables(g)...) })
	a.file = l.textfiles.begin(wholeJob(job.Name))
	return a
}

// Look implements daemon.Launch.
func (a *launch) Look(ctx context.Context) (err error) {
	a.site, err = a.findSite(ctx, a.job, patienceToLook)
	return err
}

// Observe implements daemon.Launch.
func (a *launch) Observe(e runner.Event) {
	if a.metrics != nil {
		a.metrics.Observe(counted(e))
	}
	if a.file != nil {
		a.file.Observe(counted(e))
	}
	a.reporter.event(e)
}

// Ended implements daemon.Launch.
func (a *launch) Ended(tick time.Time, r runner.Result) {
	a.reporter.trigger.Tick = tick.Unix()
	a.over(r)
}

// over counts and tells how the attempt ended that the reporter's trigger was for.
func (a *launch) over(r runner.Result) {
	now := time.Now()
	count := func(set *metrics.Set) {
		if job, _, isShard := slots.Split(a.job.Name); isShard {
			set.ShardEnded(job, r)
			return
		}
		set.Ended(a.job.Name, r, instant(a.reporter.trigger.Tick), now)
	}
	if a.metrics != nil {
		count(a.metrics)
	}
	if a.file != nil {
		count(a.file.Set)
		a.textfiles.write(wholeJob(a.job.Name), a.file)
	}
	for _, before := range r.Before {
		a.tellCode(before)
	}
	a.reporter.tell(r, endOf(r, -1))
	a.tellCode(r)
}

// whole counts how the work on a whole tick or key ended.
func (l *launcher) whole(job string, o shards.Outcome, end ExitStatus) {
	count := func(set *metrics.Set) { set.TickEnded(job, end.Code, o.IsDone(), instant(o.Trigger.Tick), time.Now()) }
	if l.metrics != nil {
		count(l.metrics)
	}
	if file := l.textfiles.begin(job); file != nil {
		count(file.Set)
		l.textfiles.write(job, file)
	}
}

// wholeJob is the job whose shard a job is, or the job itself.
func wholeJob(name string) string {
	if job, _, isShard := slots.Split(name); isShard {
		return job
	}
	return name
}

// tellCode says how a command ended that did not end well.
func (a *launch) tellCode(r runner.Result) {
	code := endOf(r, -1).Code
	if r.Ending != runner.Ran || code == 0 || r.Signal != 0 && r.Status.Signal == r.Signal { // which was told
		return
	}
	e := runner.Event{
		Name: "command_failed", Level: slog.LevelWarn, Job: a.job.Name, Tick: r.Grant.Tick, Token: r.Grant.Token,
		Text: fmt.Sprintf("the command ended with code %d", code), Fields: []slog.Attr{slog.Int("code", code)},
	}
	if r.Err != nil { // this process wanted it
		e.Level, e.Text = slog.LevelInfo, fmt.Sprintf("the command was stopped: %v", r.Err)
	}
	a.reporter.say(e)
}

// variable returns the last value of a variable.
func variable(env []string, name string) string {
	prefix := name + "="
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, prefix); ok {
			return value
		}
	}
	return ""
}

// lastWins drops all but the last entry of each name: of two, getenv(3) finds the first.
func lastWins(env []string) []string {
	seen := make(map[string]bool, len(env))
	kept := make([]string, 0, len(env))
	for _, entry := range slices.Backward(env) {
		name, _, _ := strings.Cut(entry, "=")
		if !seen[name] {
			seen[name] = true
			kept = append(kept, entry)
		}
	}
	slices.Reverse(kept)
	return kept
}

// Env implements daemon.Launch.
func (a *launch) Env(g backends.Grant) []string { return a.env(g) }

// Checks implements daemon.Launch.
func (a *launch) Checks() <-chan runner.Check { return a.socket.asked }

// Tree implements daemon.Launch.
func (a *launch) Tree() runner.Tree { return &launched{launch: a} }

// Close implements daemon.Launch. The guardians are gone, and with them the last who held the pipes open: but for a process outside
// the tree that was handed one, and keeps it for as long as it likes.
func (a *launch) Close() {
	a.socket.close()
	written := make(chan struct{})
	panics.Go(func() {
		a.copies.Wait()
		close(written)
	})
	select {
	case <-written:
	case <-time.After(a.lastOutput): // or nobody reads our output
	}
	a.pipes.leave()
}

// launched is the process tree of one start of a job's command. Its guardian starts when the lease is ours: most
// ticks are another host's.
type launched struct {
	*launch
	*supervise.Guard // which does all that the runner wants after Start; nil before
}

var _ runner.Tree = (*launched)(nil)

// Start implements runner.Tree.
func (t *launched) Start(env []string, hold, inherit []*os.File, d runner.Deadline) error {
	own, err := t.files()
	closeOwn := func() {
		for i, f := range own {
			if f != nil && (i != 0 || t.job.Stdin != "") {
				_ = f.Close()
			}
		}
	}
	if err != nil {
		closeOwn()
		return &fault{code: codeInternal, what: "the pipes of the command", why: reason(err), err: err}
	}
	at := t.site
	if t.job.User != "" { // who that is may have changed since, and a retry comes late
		limit := min(patienceToLook, d.Term.Sub(boottime.Now()))
		if at, err = t.findSite(context.Background(), t.job, limit); err != nil {
			closeOwn()
			return err
		}
	}
	pending := t.begin(supervise.Options{
		Detached: true, Files: own, Forked: closeOwn, // the guardian has them
		Warn: func(text string) { t.call.console.warn(t.job.Name+": "+text, "") },
	})
	if t.Guard, err = guardianBy(pending, d); err != nil {
		return err
	}
	return t.Guard.Start(supervise.Command{
		Path: at.path, Argv: t.job.Argv, Env: lastWins(slices.Concat(at.env, env)), Dir: at.dir, As: at.as,
		Socket: valueIn(env, socketVariable), Holder: valueIn(env, holderVariable), Hold: hold, Inherit: inherit, Grace: t.job.Timeline.Grace,
	}, d)
}

// files makes the command's stdin, stdout and stderr. nil is ours.
func (t *launched) files() (own [3]*os.File, err error) {
	if t.job.Stdin == "" {
		own[0] = t.null
	} else {
		reader, writer, err := os.Pipe()
		if err != nil {
			return own, err
		}
		own[0] = reader
		t.pipes.add(writer)
		panics.Go(func() {
			defer writer.Close()
			_, _ = io.WriteString(writer, t.job.Stdin) // who does not read it does not want it
		})
	}
	if t.prefix() == "" {
		return own, nil
	}
	for i, to := range []*os.File{os.Stdout, os.Stderr} {
		reader, writer, err := os.Pipe()
		if err != nil {
			return own, err
		}
		own[i+1] = writer
		t.pipes.add(reader)
		t.copies.Go(func() {
			defer panics.Catch()
			t.copyLines(to, reader)
		})
	}
	return own, nil
}

// Close implements runner.Tree. A guardian whose tree could not be confirmed dead stays.
func (t *launched) Close() {
	if t.Guard != nil {
		_ = t.Guard.Close()
	}
}
