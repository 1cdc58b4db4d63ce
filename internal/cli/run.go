package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	defaultBackendWait = 5 * time.Second
	signalsPending     = 16
)

func runCommand() *command {
	return &command{
		name: "run", args: "JOB COMMAND [ARG…]",
		brief: "run COMMAND on at most one host at a time",
		about: `Runs COMMAND if nobody else runs JOB now, on any host that uses the same backend. Otherwise it ends
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
		examples: []exampleLine{
			{"0 2 * * * in the crontab of every host: the report runs once a night", "leaderrun run --schedule '0 2 * * *' nightly-report report --full"},
			{"the same; should its host die, another one runs it again", "leaderrun run --schedule '0 2 * * *' --on-lost rerun nightly-report report --full"},
			{"a deploy on every host: the migration runs once for each release", "leaderrun run --once v42 --wait 10m migrate make migrate"},
			{"without ticks: not twice at a time", "leaderrun run sync sync-all"},
			{"every host waits for its turn, up to ten minutes", "leaderrun run --wait 10m restart make restart"},
			{"a service that runs on one host; the others stand by", "leaderrun run --wait forever feed feeder"},
			{"three workers among all hosts; the others stand by", "leaderrun run --slots 3 --wait forever queue consume"},
			{"a night's invoices among all hosts, two shards at a time on each", "leaderrun run --schedule '0 2 * * *' --on-lost rerun --shards 16 --parallel 2 invoices send-invoices"},
			{"a pipeline goes inside: what stands outside runs on every host", "leaderrun run backup -- bash -o pipefail -c 'dump | gzip > dump.gz'"},
			{"the same for a shell's one line", "leaderrun run --shell backup 'dump | gzip > dump.gz'"},
			{"end it after half an hour, and make sure after ten seconds more", "leaderrun run --timeout 30m --kill-after 10s sync sync-all"},
			{"tell a skipped run from one that went well", "leaderrun run -E 100 other-report report --full"},
		},
		options: append(runOptions(), commonOptions()...),
		run:     runRun,
		rest:    true,
	}
}

// runPlan is what the options of run come to.
type runPlan struct {
	job      string
	argv     []string
	dashed   bool // -- stands before COMMAND, so JOB is not missing
	timeline runner.Timeline
	request  runner.Request
	slots    int // 0: the job has none
	parallel int // how many shards at a time; their number is in the request's trigger
	conflict int
	tokenEnv string
	ready    string
	metrics  string // a directory; "": none
}

func runRun(c *call) (ExitStatus, error) {
	plan, err := c.planRun()
	if err == nil {
		err = noProcesses()
	}
	if err != nil {
		return ExitStatus{}, err
	}
	var path string
	var store backends.Backend
	err = c.beforehand(func() (err error) {
		var code int
		if path, code, err = supervise.LookPath(plan.argv[0]); err != nil {
			return &fault{code: code, what: plan.argv[0], why: reason(err), err: err, hint: lookHint(plan, code)}
		}
		store, err = c.openStore()
		return err
	})
	if err != nil {
		return ExitStatus{}, err
	}
	defer store.Close()
	if hint, err := checkTTL(plan.timeline.TTL, store.Limits()); err != nil {
		f := c.timelineFault(err)
		f.hint = hint
		return ExitStatus{}, f
	}
	switch o := plan.request.Trigger; {
	case o.Parts > 0 && o.Given():
		return c.runShards(plan, store)
	case o.Parts > 0:
		return c.runWorkers(plan, store)
	}
	starts := newStarts(c.console, c.ahead, supervise.Command{
		Path: path, Argv: plan.argv, Env: childEnvironment(os.Environ(), plan.tokenEnv), Grace: plan.timeline.Grace,
	})
	defer starts.over()

	notify := newNotifier(c.settings.lookup, plan.ready)
	reporter := &reporter{console: c.console, notify: notify, job: plan.job, slots: plan.slots, trigger: plan.request.Trigger}
	request := plan.request
	request.Host = thisHolder()
	request.Inside = inside()
	request.Signals = reporter.filter(c.signals)
	request.Tree = starts.next
	checks := newSocket(c.console.warn)
	defer checks.close()
	request.Checks, request.Env = checks.asked, checks.env(request.Env)
	textfiles := newTextfiles(c.console, plan.metrics)
	file := textfiles.begin(plan.job)
	observe := func(e runner.Event) {
		if e.Name == runner.EventStandby {
			panics.Go(func() { checks.ahead(plan.timeline.TTL) })
		}
		if file != nil {
			file.Observe(counted(e))
		}
		reporter.event(e)
	}
	driver := backends.Driver(store)
	if plan.slots > 0 {
		driver = slots.New(store, plan.job, plan.slots, request.Host.Host, c.console.warn)
	}
	result := guarded(func() runner.Result {
		return (&runner.Runner{Driver: driver, Observe: observe}).Run(context.Background(), request)
	})
	end := endOf(result, plan.conflict)
	reporter.tell(result, end)
	if file != nil {
		file.Ended(plan.job, result, instant(request.Trigger.Tick), time.Now())
		textfiles.write(plan.job, file)
	}
	notify.close(end)
	return end, nil
}

// guarded ends the program at once where run panics, and leaves the command to its guardian: what would be called on the way
// out may be what is broken.
func guarded(run func() runner.Result) runner.Result {
	defer panics.Catch()
	return run()
}

// planRun reads arguments and options. Nothing is touched yet.
func (c *call) planRun() (*runPlan, error) {
	s := c.settings
	p := &runPlan{
		conflict: read(s, "conflict-exit-code", parseCode, -1),
		tokenEnv: read(s, "token-env", parseVariable, tokenVariable),
		slots:    read(s, "slots", parseSlots, 0),
		parallel: read(s, "parallel", parseSlots, 1),
		ready:    read(s, "ready", value.OneOf(readyWords()...), readyStandby),
		metrics:  read(s, "metrics-textfile", parseDirectory, ""),
		request: runner.Request{
			KillAfter:  read(s, "kill-after", duration.Bound, 0),
			Timeout:    read(s, "timeout", duration.Bound, 0),
			Retries:    read(s, "retries", parseRetries, 0),
			RetryDelay: read(s, "retry-delay", duration.NotNegative, defaultDelay),
		},
	}
	trigger, err := readTrigger(s, time.Now())
	if err != nil {
		return nil, err
	}
	trigger.Parts = read(s, "shards", parseSlots, 0)
	r := &p.request
	r.Trigger = trigger
	r.Wait, r.BackendWait = patienceOf(s, trigger)
	if trigger.Schedule.Fingerprint != "" {
		r.FindUnclaimed = func(refusal backends.Refusal) (backends.Unclaimed, bool) { return passedUnclaimed(refusal, time.Now()) }
	}
	r.MinHold = read(s, "min-hold", duration.NotNegative, 0)
	if pattern := read(s, "prefer", parseHostPattern, ""); pattern != "" && !isHost(pattern) {
		r.Yield = yieldTime
	}
	ttl := read(s, "ttl", duration.Positive, runner.DefaultTTL)
	grace := read(s, "grace", duration.NotNegative, -1)
	shell := s.on("shell")
	if s.err != nil {
		return nil, s.err
	}
	if r.MinHold > 0 && trigger.Given() {
		if s.typed("min-hold") {
			return nil, usage("--min-hold", "the run is for a tick or a key, which is run once", "leave one of the two out")
		}
		r.MinHold = 0 // a setting for other jobs
	}
	job, argv, err := splitArgs(c.args, "usage: "+c.cmd.usageLine())
	if err == nil {
		err = checkShards(s, job, r)
	}
	if err == nil {
		err = cmp.Or(checkSlots(job, p.slots, trigger), checkMembers(job))
	}
	if err == nil {
		argv, err = commandOf(argv, shell)
	}
	if err != nil {
		return nil, err
	}
	p.job, p.argv, p.dashed = job, argv, c.args[1] == "--"
	if p.timeline, err = runner.NewTimeline(ttl, grace); err != nil {
		return nil, c.timelineFault(err)
	}
	r.Job, r.Timeline = job, p.timeline
	r.Env = func(g backends.Grant) []string {
		return append(grantVariables(g, p.tokenEnv), slotVariables(g, p.slots)...)
	}
	return p, nil
}

// timelineFault is a TTL or grace that does not fit, the fault of where they come from.
func (c *call) timelineFault(err error) *fault {
	var places []string
	from := byDefault
	for _, name := range []string{"ttl", "grace"} {
		if g, ok := c.settings.find(name); ok {
			from = max(from, g.origin)
			places = append(places, g.place)
		}
	}
	f := &fault{code: from.code(), what: strings.Join(places, ", "), why: err.Error(), err: err}
	if from == byDefault {
		f.what = "the default TTL"
		f.hint = "set --ttl"
	}
	return f
}

// splitArgs takes the arguments after the options apart. The first -- went with the options, if it was there.
func splitArgs(args []string, hint string) (job string, argv []string, err error) {
	switch {
	case len(args) == 0 || args[0] == "--":
		return "", nil, usage("JOB is missing", "", hint)
	case args[0] == "":
		return "", nil, usage("JOB", "the name is empty", hint)
	case value.NotName(args[0]) != "":
		return "", nil, usage("JOB", "the name "+value.NotName(args[0]), "")
	}
	job, argv = args[0], args[1:]
	switch {
	case len(argv) > 0 && argv[0] == "--":
		argv = argv[1:]
	case len(argv) > 0 && strings.HasPrefix(argv[0], "-"):
		return "", nil, usage("COMMAND", fmt.Sprintf("%q looks like an option", argv[0]), "options go before JOB")
	}
	if len(argv) == 0 {
		return "", nil, usage("COMMAND is missing", "", hint)
	}
	return job, argv, nil
}

// parseSlots reads a number of slots, or of shards.
var parseSlots = value.Number(1, slots.Most)

// checkSlots says whether a job of this name can have so many slots, or none.
func checkSlots(job string, n int, o backends.Trigger) error {
	of, slot, isSlot := slots.Split(job)
	switch {
	case isSlot:
		return usage("JOB", fmt.Sprintf("%q is the name of slot %d of %s", job, slot, of), "a job's own name does not end like that; `run --slots N` gives out slots")
	case n > 0 && o.Given():
		return usage("--slots", "the run is for a tick or a key, which is run once", "leave one of the two out")
	case n > 0 && len(slots.Name(job, n-1)) > value.LongestName:
		return usage("JOB", fmt.Sprintf("the names of its slots are longer than %d bytes", value.LongestName), "")
	}
	return nil
}

// yieldTime is how much later than it could a host claims a job for which others are preferred: longer than news of a free lease
// take to arrive, and than chance makes one of them late.
const yieldTime = time.Second

// parseHostPattern reads a pattern for names of hosts, as a shell has them for files.
func parseHostPattern(text string) (string, error) {
	if text == "" {
		return "", errEmpty
	}
	if _, err := path.Match(text, ""); err != nil {
		return "", fmt.Errorf("%q is not a pattern", text)
	}
	return text, nil
}

// isHost says whether a pattern is for this host.
func isHost(pattern string) bool {
	name, err := os.Hostname()
	matches, _ := path.Match(pattern, name)
	return err == nil && matches
}

// commandOf is what is run: COMMAND and its arguments, or a shell with its one line.
func commandOf(argv []string, shell bool) ([]string, error) {
	switch {
	case !shell && argv[0] == "":
		return nil, usage("COMMAND", "it is empty", "is it a variable that is not set?")
	case !shell:
		return argv, nil
	case len(argv) != 1:
		return nil, usage("--shell", "COMMAND must be one argument", "quote the line: "+quoteLine(argv))
	case strings.TrimSpace(argv[0]) == "":
		return nil, usage("--shell", "the line is empty", "is it a variable that is not set?")
	}
	return []string{"sh", "-c", argv[0]}, nil
}

// ofShell are commands that a shell has itself, beside those that are programs, too, and the words of its grammar.
const ofShell = " . : alias bg break case cd command continue declare eval exec exit export fg for function getopts hash if jobs let local read readonly " +
	"return set shift shopt source times trap type typeset ulimit umask unalias unset until wait while [[ { ( ! "

func lookHint(p *runPlan, code int) string {
	name, _, assigns := strings.Cut(p.argv[0], "=")
	switch {
	case strings.HasPrefix(p.argv[0], "~"):
		return "a shell replaces ~ only outside of quotes: leave them out, or write $HOME"
	case strings.Contains(ofShell, " "+p.argv[0]+" "), assigns && value.IsVariable(name):
		return "that is a shell's own: --shell takes a line for a shell"
	case strings.Contains(" l la ll ", " "+p.argv[0]+" "):
		return "that is often an alias, which only the shell knows that it was made in: write what it stands for"
	case strings.ContainsAny(p.argv[0], " \t|;&") && len(p.argv) == 1:
		return "a line for a shell needs --shell"
	case code == 126:
		return "is it a program, with its x bit set?"
	case strings.Contains(p.argv[0], "/"):
		return ""
	}
	const short = "cron sets a short PATH: give the whole path"
	if _, _, err := supervise.LookPath(p.job); err == nil && !p.dashed {
		return short + "; or is JOB missing before " + oneLine(p.job) + ", which is a program?"
	}
	return short
}

// starts makes the process tree of each start of the command: of the first one, of a retry, and of the run of an
// earlier tick that comes before ours. The runner alone calls it, and has closed the tree before. It may leave a call
// behind that hangs.
type starts struct {
	command supervise.Command
	console *console

	mu   sync.Mutex
	tree *tree // of the last start; before the first one, the one that is ready for it
	used bool
}

// newStarts takes a tree whose guardian is already starting, or starts one: a standby keeps it ready.
func newStarts(v *console, ahead *tree, command supervise.Command) *starts {
	if ahead == nil {
		ahead = newTree(v)
	}
	return &starts{command: command, console: v, tree: ahead}
}

func (s *starts) next() runner.Tree {
	t, used := s.last()
	if used {
		t.close() // the guardian before would unlock under this run what they share
		t = newTree(s.console)
	}
	t.command = s.command
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.used = t, true
	return t
}

func (s *starts) last() (t *tree, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree, s.used
}

// over sends a guardian away that was never needed, and waits for the end of one that was.
func (s *starts) over() {
	t, _ := s.last()
	t.close()
}

// quoteLine is what people may have meant by several words after --shell.
func quoteLine(argv []string) string {
	return "'" + strings.ReplaceAll(strings.Join(argv, " "), "'", `'\''`) + "'"
}

// thisHolder is what status shows of this process. The name is the password database's: the variable USER
// survives su and sudo.
func thisHolder() backends.Holder {
	h := backends.Holder{PID: os.Getpid()}
	h.Host, _ = os.Hostname()
	uid := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(uid); err == nil {
		h.User = u.Username
	} else {
		h.User = "uid " + uid
	}
	return h
}

// inside lists the holders whose runs have started this process: by the guardians above it, which sudo and su do not hide, and by the
// variable, where another PID namespace does.
func inside() backends.Inside {
	ids := supervise.Holders()
	if id := os.Getenv(holderVariable); id != "" {
		ids = append(ids, id)
	}
	return ids
}

// filter passes signals on to the runner. Where systemd watches over a standby, HUP is its word for "reload",
// and there is nothing to reload: it does not end the wait.
func (s *reporter) filter(signals <-chan syscall.Signal) <-chan os.Signal {
	out := make(chan os.Signal, signalsPending)
	panics.Go(func() {
		for sig := range signals {
			if sig == syscall.SIGHUP && s.notify != nil && !s.started.Load() {
				continue
			}
			out <- sig
		}
	})
	return out
}
