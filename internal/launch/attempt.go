package launch

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
	"github.com/leaderrun/leaderrun/internal/cli"
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

// Launcher starts the commands of a daemon's jobs, and tells what becomes of them.
type Launcher struct {
	Call      *cli.Call
	null      *os.File     // stdin of jobs that have none
	Metrics   *metrics.Set // nil: nobody asks
	Textfiles *Textfiles   // nil: nobody asks
	Sockets   socketHome
	begin     func(supervise.Options) *supervise.Pending // starts a guardian

	Files      hangable
	LastOutput time.Duration
	output     sync.Mutex // of prefixed lines
}

// NewLauncher makes one. system: the jobs have users, who reach the sockets of their runs.
func NewLauncher(c *cli.Call, system bool, textfile string) (*Launcher, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, &cli.Fault{Code: cli.CodeInternal, What: os.DevNull, Why: cli.Reason(err), Err: err}
	}
	return &Launcher{
		Call: c, null: null, Sockets: socketHome{shared: system}, Textfiles: NewTextfiles(c.Console, textfile),
		begin: supervise.Begin, LastOutput: lastOutput,
	}, nil
}

// Removed forgets what was counted of a job that is not run any more.
func (l *Launcher) Removed(job string) {
	if l.Metrics != nil {
		l.Metrics.Forget(job)
	}
	l.Textfiles.forget(job)
}

// Attempt is one attempt's connection to the world: it starts the command, several times where that is repeated. It
// implements daemon.Launch.
type Attempt struct {
	*Launcher
	job      *jobfile.Job
	site     Site // as Look has found it
	socket   *Socket
	env      func(backends.Grant) []string
	TokenEnv string         // one more variable that has the token
	copies   sync.WaitGroup // of prefixed output
	pipes    pipes          // our ends of those of the commands
	Reporter *Reporter
	file     *metrics.Textfile // nil: nobody asks
}

// Launch makes what one attempt of a job of a file needs.
func (l *Launcher) Launch(job *jobfile.Job) daemon.Launch {
	a := l.Prepare(job)
	a.Reporter.inFile = true
	return a
}

// Prepare makes what one attempt of a job needs, in a process that has several at a time. The job may be a shard of one.
func (l *Launcher) Prepare(job *jobfile.Job) *Attempt {
	a := &Attempt{
		Launcher: l, job: job, TokenEnv: cli.TokenVariable,
		Reporter: &Reporter{Console: l.Call.Console, Job: job.Name, prefix: job.Name + ": "},
		socket:   NewSocket(func(text, hint string) { l.Call.Console.Warn(job.Name+": "+text, hint) }),
	}
	a.Reporter.Trigger.StartDeadline = job.StartDeadline
	a.socket.home = &l.Sockets
	a.socket.owner = func() *supervise.Credential { return a.site.as }
	a.env = a.socket.Env(func(g backends.Grant) []string { return append(GrantVariables(g, a.TokenEnv), shardVariables(g)...) })
	a.file = l.Textfiles.Begin(slots.Whole(job.Name))
	return a
}

// Look implements daemon.Launch.
func (a *Attempt) Look(ctx context.Context) (err error) {
	a.site, err = a.FindSite(ctx, a.job, PatienceToLook)
	return err
}

// Observe implements daemon.Launch.
func (a *Attempt) Observe(e runner.Event) {
	if a.Metrics != nil {
		a.Metrics.Observe(Counted(e))
	}
	if a.file != nil {
		a.file.Observe(Counted(e))
	}
	a.Reporter.Event(e)
}

// Ended implements daemon.Launch.
func (a *Attempt) Ended(tick time.Time, r runner.Result) {
	a.Reporter.Trigger.Tick = tick.Unix()
	a.Over(r)
}

// Over counts and tells how the attempt ended that the reporter's trigger was for.
func (a *Attempt) Over(r runner.Result) {
	now := time.Now()
	count := func(set *metrics.Set) {
		if job, _, isShard := slots.Split(a.job.Name); isShard {
			set.ShardEnded(job, r)
			return
		}
		set.Ended(a.job.Name, r, Instant(a.Reporter.Trigger.Tick), now)
	}
	if a.Metrics != nil {
		count(a.Metrics)
	}
	if a.file != nil {
		count(a.file.Set)
		a.Textfiles.Write(slots.Whole(a.job.Name), a.file)
	}
	for _, before := range r.Before {
		a.tellCode(before)
	}
	a.Reporter.Tell(r, cli.EndOf(r, -1))
	a.tellCode(r)
}

// Whole counts how the work on a whole tick or key ended.
func (l *Launcher) Whole(job string, o shards.Outcome, end cli.ExitStatus) {
	count := func(set *metrics.Set) { set.TickEnded(job, end.Code, o.IsDone(), Instant(o.Trigger.Tick), time.Now()) }
	if l.Metrics != nil {
		count(l.Metrics)
	}
	if file := l.Textfiles.Begin(job); file != nil {
		count(file.Set)
		l.Textfiles.Write(job, file)
	}
}

// tellCode says how a command ended that did not end well.
func (a *Attempt) tellCode(r runner.Result) {
	code := cli.EndOf(r, -1).Code
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
	a.Reporter.say(e)
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
func (a *Attempt) Env(g backends.Grant) []string { return a.env(g) }

// Checks implements daemon.Launch.
func (a *Attempt) Checks() <-chan runner.Check { return a.socket.Asked }

// Tree implements daemon.Launch.
func (a *Attempt) Tree() runner.Tree { return &launched{Attempt: a} }

// Close implements daemon.Launch. The guardians are gone, and with them the last who held the pipes open: but for a process outside
// the tree that was handed one, and keeps it for as long as it likes.
func (a *Attempt) Close() {
	a.socket.Close()
	written := make(chan struct{})
	panics.Go(func() {
		a.copies.Wait()
		close(written)
	})
	select {
	case <-written:
	case <-time.After(a.LastOutput): // or nobody reads our output
	}
	a.pipes.leave()
}

// launched is the process tree of one start of a job's command. Its guardian starts when the lease is ours: most
// ticks are another host's.
type launched struct {
	*Attempt
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
		return &cli.Fault{Code: cli.CodeInternal, What: "the pipes of the command", Why: cli.Reason(err), Err: err}
	}
	at := t.site
	if t.job.User != "" { // who that is may have changed since, and a retry comes late
		limit := min(PatienceToLook, d.Term.Sub(boottime.Now()))
		if at, err = t.FindSite(context.Background(), t.job, limit); err != nil {
			closeOwn()
			return err
		}
	}
	pending := t.begin(supervise.Options{
		Detached: true, Files: own, Forked: closeOwn, // the guardian has them
		Warn: func(text string) { t.Call.Console.Warn(t.job.Name+": "+text, "") },
	})
	if t.Guard, err = guardianBy(pending, d); err != nil {
		return err
	}
	return t.Guard.Start(supervise.Command{
		Path: at.path, Argv: t.job.Argv, Env: lastWins(slices.Concat(at.env, env)), Dir: at.dir, As: at.as,
		Socket: valueIn(env, cli.SocketVariable), Holder: valueIn(env, cli.HolderVariable), Hold: hold, Inherit: inherit, Grace: t.job.Timeline.Grace,
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
