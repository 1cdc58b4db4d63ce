// Package run has the commands that are one run of a job, or part of one: run and check.
package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	signalsPending = 16
)

// Command is `leaderrun run`.
func Command() *cli.Command {
	return &cli.Command{
		Name: "run", Args: "JOB COMMAND [ARG…]",
		Brief: "run COMMAND on at most one host at a time",
		About: `Runs COMMAND if nobody else runs JOB now, on any host that uses the same backend. Otherwise it ends
at once with code 0, or waits with --wait. The whole process tree of a run is dead before anyone
else's can start, also when leaderrun is killed, the network fails, or the server restarts.

With --schedule, --every or --tick it runs once for each tick, a scheduled instant: whoever comes when
the tick is done ends with code 0, however short COMMAND was and however far the clocks differ. With
--once it runs once for each key. A tick that failed is not run again, and one whose host vanished only
with --on-lost rerun.

With --slots N up to N runs of JOB go on at once, on any hosts, each in a slot of its own, in which nobody
else runs, with its own lease and tokens. COMMAND finds the number of its slot in LEADERRUN_SLOT (from 0),
N in LEADERRUN_SLOTS, and the name of the slot, such as JOB#3, in LEADERRUN_JOB.

With --shards N the work of a tick or key is divided: every host that comes works through those of N
shards that nobody has done. COMMAND finds in LEADERRUN_SHARD which one it is to do (from 0), and N in
LEADERRUN_SHARDS; its stdin is /dev/null. The exit code is that of the whole: 0 if all are done.

With --shards N and --wait forever, but without a tick or key, N workers run that do not end, divided evenly
among all hosts that have come. When one comes, the others give up shards for it, one after the other; when
one dies, they take its shards. No shard runs in two places. A worker that ends is run again.

Options end at JOB or at --. What follows JOB reaches COMMAND untouched, without a shell. stdin, stdout
and stderr are COMMAND's own. Signals to leaderrun are passed on, and a second SIGTERM or SIGINT kills;
where stdin and stdout are the terminal, Ctrl-C reaches COMMAND alone.

COMMAND finds in its environment LEADERRUN_JOB, LEADERRUN_TOKEN (greater than every token before, for
systems that can refuse a stale one), LEADERRUN_HOLDER and LEADERRUN_ATTEMPT, and with a tick or key
LEADERRUN_TICK, LEADERRUN_TICK_UNIX or LEADERRUN_ONCE.`,
		Examples: []cli.ExampleLine{
			{Does: "0 2 * * * in the crontab of every host: the report runs once a night", Line: "leaderrun run --schedule '0 2 * * *' nightly-report report --full"},
			{Does: "the same; should its host die, another one runs it again", Line: "leaderrun run --schedule '0 2 * * *' --on-lost rerun nightly-report report --full"},
			{Does: "a deploy on every host: the migration runs once for each release", Line: "leaderrun run --once v42 --wait 10m migrate make migrate"},
			{Does: "without ticks: not twice at a time", Line: "leaderrun run sync sync-all"},
			{Does: "every host waits for its turn, up to ten minutes", Line: "leaderrun run --wait 10m restart make restart"},
			{Does: "a service that runs on one host; the others stand by", Line: "leaderrun run --wait forever feed feeder"},
			{Does: "three workers among all hosts; the others stand by", Line: "leaderrun run --slots 3 --wait forever queue consume"},
			{Does: "a night's invoices among all hosts, two shards at a time on each", Line: "leaderrun run --schedule '0 2 * * *' --on-lost rerun --shards 16 --parallel 2 invoices send-invoices"},
			{Does: "a pipeline goes inside: what stands outside runs on every host", Line: "leaderrun run backup -- bash -o pipefail -c 'dump | gzip > dump.gz'"},
			{Does: "the same for a shell's one line", Line: "leaderrun run --shell backup 'dump | gzip > dump.gz'"},
			{Does: "end it after half an hour, and make sure after ten seconds more", Line: "leaderrun run --timeout 30m --kill-after 10s sync sync-all"},
			{Does: "tell a skipped run from one that went well", Line: "leaderrun run -E 100 other-report report --full"},
		},
		Options: append(launch.RunOptions(), cli.CommonOptions()...),
		Run:     runRun,
		Refuse: func(c *cli.Call) error {
			_, err := planRun(c)
			return err
		},
		Rest: true,
	}
}

// runPlan is what the options of run come to.
type runPlan struct {
	job      string
	argv     []string
	before   string // the word before COMMAND; "": -- stands there
	timeline runner.Timeline
	request  runner.Request
	slots    int // 0: the job has none
	parallel int // how many shards at a time; their number is in the request's trigger
	conflict int
	tokenEnv string
	ready    string
	metrics  string // a directory; "": none
}

func runRun(c *cli.Call) (cli.ExitStatus, error) {
	plan, err := planRun(c)
	if err == nil {
		err = launch.NoProcesses()
	}
	if err != nil {
		return cli.ExitStatus{}, err
	}
	var path string
	var store backends.Backend
	err = launch.Beforehand(c, func() (err error) {
		var code int
		if path, code, err = supervise.LookPath(plan.argv[0]); err != nil {
			return &cli.Fault{Code: code, What: plan.argv[0], Why: cli.Reason(err), Err: err, Hint: launch.LookHint(plan.before, plan.argv, code)}
		}
		store, err = c.OpenStore()
		return err
	})
	if err != nil {
		return cli.ExitStatus{}, err
	}
	defer store.Close()
	if hint, err := cli.CheckTTL(plan.timeline.TTL, store.Limits()); err != nil {
		f := timelineFault(c, err)
		f.Hint = hint
		return cli.ExitStatus{}, f
	}
	switch o := plan.request.Trigger; {
	case o.Parts > 0 && o.Given():
		return runShards(c, plan, store)
	case o.Parts > 0:
		return runWorkers(c, plan, store)
	}
	starts := newStarts(c.Console, launch.BegunTree(c), supervise.Command{
		Path: path, Argv: plan.argv, Env: launch.ChildEnvironment(os.Environ(), plan.tokenEnv), Grace: plan.timeline.Grace,
	})
	defer starts.over()

	notify := launch.NewNotifier(c.Settings.Lookup, plan.ready)
	reporter := &launch.Reporter{Console: c.Console, Notify: notify, Job: plan.job, Slots: plan.slots, Trigger: plan.request.Trigger}
	request := plan.request
	request.Host = launch.ThisHolder()
	request.Inside = launch.Inside()
	request.Signals = filter(reporter, c.Signals)
	request.Tree = starts.next
	checks := launch.NewSocket(c.Console.Warn)
	defer checks.Close()
	request.Checks, request.Env = checks.Asked, checks.Env(request.Env)
	textfiles := launch.NewTextfiles(c.Console, plan.metrics)
	file := textfiles.Begin(plan.job)
	observe := func(e runner.Event) {
		if e.Name == runner.EventStandby {
			panics.Go(func() { checks.Ahead(plan.timeline.TTL) })
		}
		if file != nil {
			file.Observe(launch.Counted(e))
		}
		reporter.Event(e)
	}
	driver := backends.Driver(store)
	if plan.slots > 0 {
		driver = slots.New(store, plan.job, plan.slots, request.Host.Host, c.Console.Warn)
	}
	result := guarded(func() runner.Result {
		return (&runner.Runner{Driver: driver, Observe: observe}).Run(context.Background(), request)
	})
	end := cli.EndOf(result, plan.conflict)
	reporter.Tell(result, end)
	if file != nil {
		file.Ended(plan.job, result, launch.Instant(request.Trigger.Tick), time.Now())
		textfiles.Write(plan.job, file)
	}
	notify.Close(end)
	return end, nil
}

// guarded ends the program at once where run panics, and leaves the command to its guardian: what would be called on the way
// out may be what is broken.
func guarded(run func() runner.Result) runner.Result {
	defer panics.Catch()
	return run()
}

// planRun reads arguments and options. Nothing is touched yet.
func planRun(c *cli.Call) (*runPlan, error) {
	s := c.Settings
	p := &runPlan{
		conflict: cli.Read(s, "conflict-exit-code", launch.ParseCode, -1),
		tokenEnv: cli.Read(s, "token-env", launch.ParseVariable, cli.TokenVariable),
		slots:    cli.Read(s, "slots", launch.ParseSlots, 0),
		parallel: cli.Read(s, "parallel", launch.ParseSlots, 1),
		ready:    cli.Read(s, "ready", value.OneOf(launch.ReadyWords()...), launch.ReadyStandby),
		metrics:  cli.Read(s, "metrics-textfile", launch.ParseDirectory, ""),
		request: runner.Request{
			KillAfter:  cli.Read(s, "kill-after", duration.Bound, 0),
			Timeout:    cli.Read(s, "timeout", duration.Bound, 0),
			Retries:    cli.Read(s, "retries", launch.ParseRetries, 0),
			RetryDelay: cli.Read(s, "retry-delay", duration.NotNegative, launch.DefaultDelay),
		},
	}
	trigger, err := launch.ReadTrigger(s, time.Now())
	if err != nil {
		return nil, err
	}
	trigger.Parts = cli.Read(s, "shards", launch.ParseSlots, 0)
	r := &p.request
	r.Trigger = trigger
	r.Wait, r.BackendWait = launch.PatienceOf(s, trigger)
	if trigger.Schedule.Fingerprint != "" {
		r.FindUnclaimed = func(refusal backends.Refusal) (backends.Unclaimed, bool) {
			return launch.PassedUnclaimed(refusal, time.Now())
		}
	}
	r.MinHold = cli.Read(s, "min-hold", duration.NotNegative, 0)
	if pattern := cli.Read(s, "prefer", launch.ParseHostPattern, ""); pattern != "" && !isHost(pattern) {
		r.Yield = yieldTime
	}
	ttl := cli.Read(s, "ttl", duration.Positive, runner.DefaultTTL)
	grace := cli.Read(s, "grace", duration.NotNegative, -1)
	shell := s.On("shell")
	if s.Err != nil {
		return nil, s.Err
	}
	if r.MinHold > 0 && trigger.Given() {
		if s.Typed("min-hold") {
			return nil, cli.Usage("--min-hold", "the run is for a tick or a key, which is run once", "leave one of the two out")
		}
		r.MinHold = 0 // a setting for other jobs
	}
	job, argv, err := splitArgs(c.Args, "usage: "+c.Cmd.UsageLine())
	if err == nil {
		err = checkShards(s, job, r)
	}
	if err == nil {
		err = cmp.Or(checkSlots(job, p.slots, trigger), checkMembers(job))
	}
	if err == nil {
		argv, err = launch.CommandOf(argv, shell)
	}
	if err != nil {
		return nil, err
	}
	p.job, p.argv = job, argv
	if c.Args[1] != "--" {
		p.before = job
	}
	if p.timeline, err = runner.NewTimeline(ttl, grace); err != nil {
		return nil, timelineFault(c, err)
	}
	r.Job, r.Timeline = job, p.timeline
	r.Env = func(g backends.Grant) []string {
		return append(launch.GrantVariables(g, p.tokenEnv), launch.SlotVariables(g, p.slots)...)
	}
	return p, nil
}

// timelineFault is a TTL or grace that does not fit, the fault of where they come from.
func timelineFault(c *cli.Call, err error) *cli.Fault {
	var places []string
	from := cli.ByDefault
	for _, name := range []string{"ttl", "grace"} {
		if g, ok := c.Settings.Find(name); ok {
			from = max(from, g.Origin)
			places = append(places, g.Place)
		}
	}
	f := &cli.Fault{Code: from.Code(), What: strings.Join(places, ", "), Why: err.Error(), Err: err}
	if from == cli.ByDefault {
		f.What = "the default TTL"
		f.Hint = "set --ttl"
	}
	return f
}

// splitArgs takes the arguments after the options apart. The first -- went with the options, if it was there.
func splitArgs(args []string, hint string) (job string, argv []string, err error) {
	switch {
	case len(args) == 0 || args[0] == "--":
		return "", nil, cli.Usage("JOB is missing", "", hint)
	case args[0] == "":
		return "", nil, cli.Usage("JOB", "the name is empty", hint)
	case value.NotName(args[0]) != "":
		return "", nil, cli.Usage("JOB", "the name "+value.NotName(args[0]), "")
	}
	job, argv = args[0], args[1:]
	switch {
	case len(argv) > 0 && argv[0] == "--":
		argv = argv[1:]
	case len(argv) > 0 && strings.HasPrefix(argv[0], "-"):
		return "", nil, cli.Usage("COMMAND", fmt.Sprintf("%q looks like an option", argv[0]), "options go before JOB")
	}
	if len(argv) == 0 {
		return "", nil, cli.Usage("COMMAND is missing", "", hint)
	}
	return job, argv, nil
}

// checkSlots says whether a job of this name can have so many slots, or none.
func checkSlots(job string, n int, o backends.Trigger) error {
	of, slot, isSlot := slots.Split(job)
	switch {
	case isSlot:
		return cli.Usage("JOB", fmt.Sprintf("%q is the name of slot %d of %s", job, slot, of), "a job's own name does not end like that; `run --slots N` gives out slots")
	case n > 0 && o.Given():
		return cli.Usage("--slots", "the run is for a tick or a key, which is run once", "leave one of the two out")
	case n > 0 && len(slots.Name(job, n-1)) > value.LongestName:
		return cli.Usage("JOB", fmt.Sprintf("the names of its slots are longer than %d bytes", value.LongestName), "")
	}
	return nil
}

// yieldTime is how much later than it could a host claims a job for which others are preferred: longer than news of a free lease
// take to arrive, and than chance makes one of them late.
const yieldTime = time.Second

// isHost says whether a pattern is for this host.
func isHost(pattern string) bool {
	name, err := os.Hostname()
	matches, _ := path.Match(pattern, name)
	return err == nil && matches
}

// starts makes the process tree of each start of the command: of the first one, of a retry, and of the run of an
// earlier tick that comes before ours. The runner alone calls it, and has closed the tree before. It may leave a call
// behind that hangs.
type starts struct {
	command supervise.Command
	console *cli.Console

	mu   sync.Mutex
	tree *launch.Tree // of the last start; before the first one, the one that is ready for it
	used bool
}

// newStarts takes a tree whose guardian is already starting, or starts one: a standby keeps it ready.
func newStarts(v *cli.Console, ahead *launch.Tree, command supervise.Command) *starts {
	if ahead == nil {
		ahead = launch.NewTree(v)
	}
	return &starts{command: command, console: v, tree: ahead}
}

func (s *starts) next() runner.Tree {
	t, used := s.last()
	if used {
		t.Discard() // the guardian before would unlock under this run what they share
		t = launch.NewTree(s.console)
	}
	t.Command = s.command
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.used = t, true
	return t
}

func (s *starts) last() (t *launch.Tree, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree, s.used
}

// over sends a guardian away that was never needed, and waits for the end of one that was.
func (s *starts) over() {
	t, _ := s.last()
	t.Discard()
}

// filter passes signals on to the runner. Where systemd watches over a standby, HUP is its word for "reload",
// and there is nothing to reload: it does not end the wait.
func filter(s *launch.Reporter, signals <-chan syscall.Signal) <-chan os.Signal {
	out := make(chan os.Signal, signalsPending)
	panics.Go(func() {
		for sig := range signals {
			if sig == syscall.SIGHUP && s.Notify != nil && !s.Started.Load() {
				continue
			}
			out <- sig
		}
	})
	return out
}
