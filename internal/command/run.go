package command

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/process"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	maxJob             = 255 // bytes
	defaultBackendWait = 5 * time.Second
	signalsPending     = 16
	runUsage           = "leaderrun run [options] JOB COMMAND [ARG…]"
)

func runCommand() *command {
	return &command{
		name: "run", args: "JOB COMMAND [ARG…]",
		brief: "run COMMAND on at most one host at a time",
		about: `Runs COMMAND if nobody else runs JOB now, on any host that uses the same backend. Otherwise it ends
at once with code 0, or waits with --wait. The whole process tree of a run is dead before anyone
else's can start, also when leaderrun is killed, the network fails, or the server restarts.

Options end at JOB or at --. What follows JOB reaches COMMAND untouched, without a shell. stdin, stdout
and stderr are COMMAND's own. Signals are passed on; a second SIGTERM or SIGINT kills.

COMMAND finds in its environment LEADERRUN_JOB, LEADERRUN_TOKEN (greater than every token before, for
systems that can refuse a stale one), LEADERRUN_HOLDER and LEADERRUN_ATTEMPT.`,
		examples: []exampleLine{
			{"one of all hosts that have this in their crontab runs the report", "leaderrun run nightly-report report --full"},
			{"every host waits for its turn, up to ten minutes", "leaderrun run --wait 10m migrate make migrate"},
			{"a service that runs on one host; the others stand by", "leaderrun run --wait forever feed feeder"},
			{"a pipeline goes inside: what stands outside runs on every host", "leaderrun run backup -- bash -o pipefail -c 'dump | gzip > dump.gz'"},
			{"the same for a shell's one line", "leaderrun run --shell backup 'dump | gzip > dump.gz'"},
			{"end it after half an hour, and make sure after ten seconds more", "leaderrun run --timeout 30m --kill-after 10s sync sync-all"},
			{"tell a skipped run from one that went well", "leaderrun run -E 100 nightly-report report --full"},
		},
		options: append(runOptions(), commonOptions()...),
		run:     runRun,
	}
}

// runPlan is what the options of run come to.
type runPlan struct {
	job      string
	argv     []string
	timeline runner.Timeline
	request  runner.Request
	conflict int
	tokenEnv string
	ready    string
}

func runRun(c *call) (End, error) {
	plan, err := c.planRun()
	if err != nil {
		return End{}, err
	}
	path, code, err := process.LookPath(plan.argv[0])
	if err != nil {
		return End{}, &fault{code: code, what: plan.argv[0], why: reason(err), err: err, hint: lookHint(plan, code)}
	}
	store, err := c.openStore()
	if err != nil {
		return End{}, err
	}
	defer store.Close()
	if hint, err := checkTTL(plan.timeline.TTL, store.Limits()); err != nil {
		f := c.timelineFault(err)
		f.hint = hint
		return End{}, f
	}
	tree := c.ahead
	if tree == nil {
		tree = plant(c.voice)
	}
	defer tree.fell()
	tree.command = process.Command{
		Path: path, Argv: plan.argv, Env: childEnvironment(os.Environ(), plan.tokenEnv), Grace: plan.timeline.Grace,
	}

	notify := newNotifier(c.settings.lookup, plan.ready)
	story := &story{voice: c.voice, notify: notify, job: plan.job}
	request := plan.request
	request.Host = thisHolder()
	request.Signals = story.filter(c.signals)
	request.Tree = func() runner.Tree { return tree }
	result := (&runner.Runner{Driver: store, Observe: story.event}).Run(context.Background(), request)
	end := endOf(result, plan.conflict)
	story.tell(result, end)
	notify.close(end)
	return end, nil
}

// planRun reads arguments and options. Nothing is touched yet.
func (c *call) planRun() (*runPlan, error) {
	s := c.settings
	p := &runPlan{
		conflict: read(s, "conflict-exit-code", parseCode, -1),
		tokenEnv: read(s, "token-env", parseVariable, tokenVariable),
		ready:    read(s, "ready", oneOf(readyWords()...), readyStandby),
		request: runner.Request{
			Wait:        read(s, "wait", parseWait, 0),
			BackendWait: read(s, "backend-wait", parseNotNegative, defaultBackendWait),
			KillAfter:   read(s, "kill-after", parseBound, 0),
			Timeout:     read(s, "timeout", parseBound, 0),
			Occasion:    backends.Occasion{OnLost: backends.Skip, MaxAttempts: 1},
		},
	}
	ttl := read(s, "ttl", parsePositive, runner.DefaultTTL)
	grace := read(s, "grace", parseNotNegative, -1)
	shell := s.on("shell")
	if s.err != nil {
		return nil, s.err
	}
	job, argv, err := splitArgs(c.args)
	if err != nil {
		return nil, err
	}
	if shell {
		if len(argv) != 1 {
			return nil, usage("--shell", "COMMAND must be one argument", "quote the line: "+quoteLine(argv))
		}
		argv = []string{"sh", "-c", argv[0]}
	}
	p.job, p.argv = job, argv
	if p.timeline, err = runner.NewTimeline(ttl, grace); err != nil {
		return nil, c.timelineFault(err)
	}
	p.request.Job, p.request.Timeline = job, p.timeline
	p.request.Env = func(g backends.Grant) []string { return grantVariables(g, p.tokenEnv) }
	return p, nil
}

// timelineFault is a TTL or grace that does not fit, the fault of where they come from.
func (c *call) timelineFault(err error) *fault {
	f := &fault{code: codeUsage, why: err.Error(), err: err}
	var places []string
	commandLine, some := false, false
	for _, name := range []string{"ttl", "grace"} {
		if g, ok := c.settings.find(name); ok {
			some = true
			commandLine = commandLine || g.origin == fromCommandLine
			places = append(places, g.place)
		}
	}
	f.what = strings.Join(places, ", ")
	if !commandLine {
		f.code = codeConfiguration
	}
	if !some {
		f.what = "the default TTL"
		f.hint = "set --ttl"
	}
	return f
}

// splitArgs takes the arguments after the options apart. The first -- went with the options, if it was there.
func splitArgs(args []string) (job string, argv []string, err error) {
	switch {
	case len(args) == 0 || args[0] == "--":
		return "", nil, usage("JOB is missing", "", "usage: "+runUsage)
	case !utf8.ValidString(args[0]):
		return "", nil, usage("JOB", "the name is not valid UTF-8", "")
	case args[0] == "":
		return "", nil, usage("JOB", "the name is empty", "usage: "+runUsage)
	case strings.ContainsRune(args[0], 0):
		return "", nil, usage("JOB", "the name contains a zero byte", "")
	case len(args[0]) > maxJob:
		return "", nil, usage("JOB", fmt.Sprintf("the name is longer than %d bytes", maxJob), "")
	}
	job, argv = args[0], args[1:]
	switch {
	case len(argv) > 0 && argv[0] == "--":
		argv = argv[1:]
	case len(argv) > 0 && strings.HasPrefix(argv[0], "-"):
		return "", nil, usage("COMMAND", fmt.Sprintf("%q looks like an option", argv[0]), "options go before JOB")
	}
	if len(argv) == 0 {
		return "", nil, usage("COMMAND is missing", "", "usage: "+runUsage)
	}
	return job, argv, nil
}

func lookHint(p *runPlan, code int) string {
	switch {
	case strings.ContainsAny(p.argv[0], " \t|;&") && len(p.argv) == 1:
		return "a line for a shell needs --shell"
	case code == 126:
		return "is it a program, with its x bit set?"
	case !strings.Contains(p.argv[0], "/"):
		return "cron sets a short PATH: give the whole path"
	}
	return ""
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

// filter passes signals on to the runner. Where systemd watches over a standby, HUP is its word for "reload",
// and there is nothing to reload: it does not end the wait.
func (s *story) filter(signals <-chan syscall.Signal) <-chan os.Signal {
	out := make(chan os.Signal, signalsPending)
	go func() {
		for sig := range signals {
			if sig == syscall.SIGHUP && s.notify != nil && !s.started.Load() {
				continue
			}
			out <- sig
		}
	}()
	return out
}
