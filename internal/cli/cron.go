package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/daemon"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/lint"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

const shownTicks = 3 // of each job, by --check

func cronCommand() *command {
	from := fromOption()
	from.help = "what crontabs are: system is --system; in those of supercronic a %\nis a plain one, and a variable counts for the whole file (default:\nuser)"
	return &command{
		name: "cron", args: "FILE…",
		brief: "run every job of a file at its ticks, each on one host",
		about: `Runs the jobs of FILE until it is told to end. Start it on every host with the same FILE and backend: each
tick runs on one of them. Every run has its own lease, guardian and fencing token, as with ` + "`leaderrun run`" + `.
There may be several files, and a directory stands for the files in it.

FILE is YAML if its name ends in .yaml or .yml:

  timezone: Europe/Berlin
  defaults: {ttl: 15s, on_lost: skip}
  jobs:
    nightly-report:
      schedule: "0 2 * * *"
      command: [/usr/local/bin/report, --full]
      start_deadline: 10m

Any other file is a crontab, in which a comment "# job: NAME" right above a line names the job, or else its
command does. With --system the crontabs have a user before each command, as /etc/cron.d has, and root's
daemon runs each job as that user, with nothing of its own environment. Of all keys of a job file tells
` + "`leaderrun help job-file`" + `, of the exit codes ` + "`leaderrun help exit-codes`" + `.

SIGHUP reads FILE again: what runs goes on, and no tick is lost. SIGTERM and SIGINT drain: nothing new starts, and
the program ends when all commands have. A second one is passed on to the commands, a third kills them.`,
		examples: []exampleLine{
			{"is the file right, and when is what due?", "leaderrun cron --check jobs.yaml"},
			{"the daemon, with metrics and health for whoever looks", "leaderrun cron --listen localhost:9465 jobs.yaml"},
			{"a directory", "leaderrun cron --check ."},
		},
		options: append([]option{
			{name: "check", help: "only say what is wrong with FILE, and show the next ticks"},
			{name: "system", help: "the files are system crontabs: a user stands before each command,\nwho runs it. For root alone"},
			from,
			{name: "skip-bad-lines", help: "say which lines cannot be run, and run the others"},
			{name: "listen", value: "ADDR", example: "localhost:9465", help: "serve /metrics, /healthz and /readyz on HOST:PORT;\n0.0.0.0 is IPv4 alone"},
			{
				name: "metrics-textfile", value: "DIR", check: by(parseDirectory),
				help: "the metrics of each run for a node exporter's textfile collector",
			},
		}, commonOptions()...),
		run: runCron,
	}
}

func runCron(c *call) (ExitStatus, error) {
	listen := read(c.settings, "listen", parseText, "")
	textfile := read(c.settings, "metrics-textfile", parseDirectory, "")
	how := c.how()
	if err := c.settings.err; err != nil {
		return ExitStatus{}, err
	}
	if c.settings.asked("system") && !how.System {
		return ExitStatus{}, usage("--system and --from", "they say two things", "give one of them")
	}
	if len(c.args) == 0 {
		return ExitStatus{}, usage("FILE is missing", "", "usage: "+c.cmd.usageLine())
	}
	if how.System && os.Geteuid() != 0 {
		return ExitStatus{}, &fault{code: codeConfiguration, what: "--system", why: "only root can run jobs as other users", hint: "leave it out: every job runs as this user, and the files have no column for users"}
	}
	if c.settings.on("check") {
		return c.checkJobs()
	}
	if err := noProcesses(); err != nil {
		return ExitStatus{}, err
	}
	var jobs []*jobfile.Job
	var store backends.Backend
	err := c.beforehand(func() (err error) {
		if jobs, err = c.loadJobs(); err == nil {
			store, err = c.openStore()
		}
		return err
	})
	if err != nil {
		return ExitStatus{}, err
	}
	defer store.Close()
	if err := fitTTLs(jobs, store.Limits()); err != nil {
		return ExitStatus{}, err
	}
	commands, err := newLauncher(c, textfile)
	if err != nil {
		return ExitStatus{}, err
	}
	defer commands.sockets.remove()
	s := newService(c, store, commands, jobs)
	if err := s.look(); err != nil {
		return ExitStatus{}, err
	}
	commands.textfiles.look()
	if listen != "" {
		closeServer, err := s.listen(listen)
		if err != nil {
			return ExitStatus{}, err
		}
		defer closeServer()
	}
	return s.serve()
}

// how says how the files are to be read. --from counts more than a --system of other places.
func (c *call) how() jobfile.How {
	from := read(c.settings, "from", value.OneOf(formatNames...), "")
	return jobfile.How{
		System: from == "system" || from == "" && c.settings.on("system"), Supercronic: from == "supercronic", SkipBad: c.settings.on("skip-bad-lines"),
	}
}

func parseText(text string) (string, error) { return text, nil }

// loadJobs reads the files. All but the last of their problems are told here.
func (c *call) loadJobs() ([]*jobfile.Job, error) {
	file, err := jobfile.Load(c.args, jobfile.NewDefaults(), c.how())
	if wrong, ok := errors.AsType[*jobfile.Error](err); ok {
		last := len(wrong.Problems) - 1
		for _, p := range wrong.Problems[:last] {
			c.console.fault(problemFault(p))
		}
		return nil, problemFault(wrong.Problems[last])
	}
	if err != nil {
		return nil, fileFault(err, strings.Join(c.args, ", "))
	}
	for _, w := range file.Warnings {
		f := problemFault(w)
		c.console.warn(f.Error(), f.hint)
	}
	return file.Jobs, nil
}

func problemFault(p jobfile.Problem) *fault {
	why := p.Why
	if p.What != "" {
		why = p.What + ": " + why
	}
	return &fault{code: codeConfiguration, what: p.Place, why: why, hint: p.Hint}
}

// fitTTLs compares the jobs with what the backend can keep.
func fitTTLs(jobs []*jobfile.Job, limits backends.Limits) error {
	for _, j := range jobs {
		if hint, err := checkTTL(j.Timeline.TTL, limits); err != nil {
			return &fault{code: codeConfiguration, what: j.Place + ": " + j.Name, why: err.Error(), hint: hint}
		}
	}
	return nil
}

// checkJobs lints the files and shows the next ticks.
func (c *call) checkJobs() (ExitStatus, error) {
	var jobs []*jobfile.Job
	err := c.beforehand(func() (err error) {
		jobs, err = c.loadJobs()
		return err
	})
	if err != nil {
		return ExitStatus{}, err
	}
	if _, named, err := c.backend(); err != nil {
		return ExitStatus{}, err
	} else if named {
		store, err := c.openStore()
		if err != nil {
			return ExitStatus{}, err
		}
		defer store.Close()
		if err := fitTTLs(jobs, store.Limits()); err != nil {
			return ExitStatus{}, err
		}
	}
	for _, f := range lint.Inside(jobs, func(path string) []byte {
		text, _ := os.ReadFile(path) // as it was read before
		return text
	}) {
		c.console.warn(findingText(f), f.Remedy)
	}
	ctx, cancel := c.context()
	defer cancel()
	var look launcher
	var b strings.Builder
	for _, j := range jobs {
		if _, err := look.findSite(ctx, j, patienceToCheck); err != nil && ctx.Err() != nil {
			return ExitStatus{}, err
		} else if err != nil {
			c.console.warn(fmt.Sprintf("%s: %s: %v", j.Place, j.Name, err), cmp.Or(hintOf(err), "a host that lacks it leaves the job to the others"))
		}
		fmt.Fprintf(&b, "%s: %s\n", oneLine(j.Name), oneLine(j.Schedule.String()))
		ticks := j.Schedule.Upcoming(time.Now(), shownTicks)
		for _, tick := range ticks {
			line := tick.Time.Format("2006-01-02 15:04:05 -0700 MST")
			if tick.Note != "" {
				line += "  " + tick.Note
			}
			fmt.Fprintf(&b, "  %s\n", line)
		}
		if len(ticks) == 0 {
			fmt.Fprintln(&b, "  no tick lies ahead")
		}
	}
	return ExitStatus{}, c.print(b.String())
}

// service is the daemon and what it is connected to.
type service struct {
	call     *call
	store    backends.Backend
	daemon   *daemon.Daemon
	notify   *notifier
	commands *launcher
	stop     context.CancelFunc // of the daemon: drain
	draining atomic.Bool        // nothing starts any more
	silent   atomic.Bool        // the backend did not answer when it was asked last by /readyz
}

func newService(c *call, store backends.Backend, commands *launcher, jobs []*jobfile.Job) *service {
	s := &service{call: c, store: store, notify: newNotifier(c.settings.lookup, readyStandby), commands: commands}
	supervise.ReapStrays()
	supervise.KeepImage()
	host := thisHolder()
	s.daemon = daemon.New(daemon.Config{
		Store: store, Host: host, Inside: inside(), Launch: commands.launch,
		FindUnclaimed: func(r backends.Refusal) (backends.Unclaimed, bool) { return passedUnclaimed(r, time.Now()) },
		Warn: func(j *jobfile.Job, name, text string) {
			e := runner.Event{Name: name, Level: slog.LevelWarn, Text: text}
			if j != nil {
				e.Job, e.Text = j.Name, j.Name+": "+text
			}
			c.console.event(e)
		},
		Removed: commands.removed,
	}, jobs)
	return s
}

// look asks the backend once, so that what no retry mends is told at the start and not at the first tick.
func (s *service) look() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyPatience)
	defer cancel()
	_, err := s.store.Inspect(ctx, readyProbe)
	if backends.IsPermanent(err) {
		return err
	}
	if err != nil && !errors.Is(err, backends.ErrUnknownJob) {
		s.call.console.warn(fmt.Sprintf("the backend does not answer: %v", err), "ticks that come due are claimed when it does, within the job's backend_wait")
	}
	return nil
}

// serve runs the daemon until it has drained.
func (s *service) serve() (ExitStatus, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.stop = stop
	over := make(chan error, 1)
	panics.Go(func() { over <- s.daemon.Run(ctx) })
	s.notify.isReady("jobs are scheduled")
	if signal.Ignored(syscall.SIGHUP) { // whoever had it ignored wants it ignored
		s.call.console.warn("SIGHUP is ignored here, as nohup leaves it: it does not read the file again", "start leaderrun with setsid instead of nohup")
	}
	asked := 0
	for {
		select {
		case err := <-over:
			s.notify.close(ExitStatus{})
			if err != nil {
				return ExitStatus{}, &fault{code: codeInternal, what: "the daemon", why: err.Error(), err: err}
			}
			return ExitStatus{}, nil
		case sig := <-s.call.signals:
			switch sig {
			case syscall.SIGHUP:
				s.reload(ctx)
			case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
				asked++
				s.drain(asked, sig)
			}
		}
	}
}

// drain lets nothing start any more. Asked again, it passes the signal on; a command that gets a second one is killed.
func (s *service) drain(asked int, sig syscall.Signal) {
	s.draining.Store(true)
	s.stop()
	n := s.daemon.Running()
	text := fmt.Sprintf("received %v: waiting for %d command(s) to end", sig, n)
	if asked > 1 {
		text = fmt.Sprintf("received %v again: stopping %d command(s)", sig, n)
		s.daemon.Signal(syscall.SIGTERM)
	}
	s.notify.isStopping(text)
	s.call.console.event(runner.Event{Name: "draining", Level: slog.LevelInfo, Text: text})
}

// rereadURL takes the user and password that the backend's file has now.
func (s *service) rereadURL(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patienceToLook)
	defer cancel()
	changed, err := s.store.Reread(ctx)
	if err != nil {
		s.call.console.warn(fmt.Sprintf("the backend's URL was read again, and is not taken: %v", err), hintOf(err))
	} else if changed {
		s.call.console.event(runner.Event{Name: "reloaded", Level: slog.LevelInfo, Text: "read again: the user and password of the backend"})
	}
}

// reading is that of the files, as a thing that may hang.
type reading struct{}

// reload reads the file again. One with a problem changes nothing.
func (s *service) reload(ctx context.Context) {
	if s.draining.Load() {
		s.call.console.warn("received a hangup while draining: the file is not read", "")
		return
	}
	s.notify.isReloading()
	defer s.notify.isReady("jobs are scheduled")
	var jobs []*jobfile.Job
	var failed error
	err := s.commands.files.call(ctx, patienceToLook, reading{}, func() { jobs, failed = s.call.loadJobs() })
	switch {
	case err != nil:
		err = &fault{code: codeUnavailable, what: strings.Join(s.call.args, ", "), why: err.Error(), err: err}
	case failed != nil:
		err = failed
	default:
		err = fitTTLs(jobs, s.store.Limits())
	}
	s.rereadURL(ctx)
	if err != nil {
		s.call.console.fault(err)
		s.call.console.warn("the jobs stay as they were", "")
		return
	}
	if s.daemon.Reload(ctx, jobs) == nil {
		s.call.console.event(runner.Event{Name: "reloaded", Level: slog.LevelInfo, Text: fmt.Sprintf("%d job(s) from %s", len(jobs), strings.Join(s.call.args, ", "))})
	}
}
