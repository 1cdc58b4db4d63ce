// Package cron has the daemon that runs the jobs of files at their ticks.
package cron

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
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/daemon"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/lint"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

const shownTicks = 3 // of each job, by --check

// Command is `leaderrun cron`.
func Command() *cli.Command {
	from := cli.FromOption()
	from.Help = "what crontabs are: system is --system; in those of supercronic a %\nis a plain one, and a variable counts for the whole file (default:\nuser)"
	return &cli.Command{
		Name: "cron", Args: "FILE…",
		Brief: "run every job of a file at its ticks, each on one host",
		About: `Runs the jobs of FILE until it is told to end. Start it on every host with the same FILE and backend: each
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
		Examples: []cli.ExampleLine{
			{Does: "is the file right, and when is what due?", Line: "leaderrun cron --check jobs.yaml"},
			{Does: "the daemon, with metrics and health for whoever looks", Line: "leaderrun cron --listen localhost:9465 jobs.yaml"},
			{Does: "a directory", Line: "leaderrun cron --check ."},
		},
		Options: append([]cli.Option{
			{Name: "check", Help: "only say what is wrong with FILE, and show the next ticks"},
			{Name: "system", Help: "the files are system crontabs: a user stands before each command,\nwho runs it. For root alone"},
			from,
			{Name: "skip-bad-lines", Help: "say which lines cannot be run, and run the others"},
			{Name: "listen", Value: "ADDR", Example: "localhost:9465", Help: "serve /metrics, /healthz and /readyz on HOST:PORT;\n0.0.0.0 is IPv4 alone"},
			{
				Name: "metrics-textfile", Value: "DIR", Check: cli.By(launch.ParseDirectory),
				Help: "the metrics of each run for a node exporter's textfile collector",
			},
		}, cli.CommonOptions()...),
		Run: runCron,
	}
}

func runCron(c *cli.Call) (cli.ExitStatus, error) {
	listen := cli.Read(c.Settings, "listen", cli.ParseText, "")
	textfile := cli.Read(c.Settings, "metrics-textfile", launch.ParseDirectory, "")
	how := how(c)
	if err := c.Settings.Err; err != nil {
		return cli.ExitStatus{}, err
	}
	if c.Settings.Asked("system") && !how.System {
		return cli.ExitStatus{}, cli.Usage("--system and --from", "they say two things", "give one of them")
	}
	if len(c.Args) == 0 {
		return cli.ExitStatus{}, cli.Usage("FILE is missing", "", "usage: "+c.Cmd.UsageLine())
	}
	if how.System && os.Geteuid() != 0 {
		return cli.ExitStatus{}, &cli.Fault{Code: cli.CodeConfiguration, What: "--system", Why: "only root can run jobs as other users", Hint: "leave it out: every job runs as this user, and the files have no column for users"}
	}
	if c.Settings.On("check") {
		return checkJobs(c)
	}
	if err := launch.NoProcesses(); err != nil {
		return cli.ExitStatus{}, err
	}
	var jobs []*jobfile.Job
	var store backends.Backend
	err := launch.Beforehand(c, func() (err error) {
		if jobs, err = loadJobs(c); err == nil {
			store, err = c.OpenStore()
		}
		return err
	})
	if err != nil {
		return cli.ExitStatus{}, err
	}
	defer store.Close()
	if err := fitTTLs(jobs, store.Limits()); err != nil {
		return cli.ExitStatus{}, err
	}
	commands, err := launch.NewLauncher(c, how.System, textfile)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	defer commands.Sockets.Remove()
	s := newService(c, store, commands, jobs)
	if err := s.look(); err != nil {
		return cli.ExitStatus{}, err
	}
	commands.Textfiles.Look()
	if listen != "" {
		closeServer, err := s.listen(listen)
		if err != nil {
			return cli.ExitStatus{}, err
		}
		defer closeServer()
	}
	return s.serve()
}

// how says how the files are to be read. --from counts more than a --system of other places.
func how(c *cli.Call) jobfile.How {
	from := cli.Read(c.Settings, "from", value.OneOf(cli.FormatNames...), "")
	return jobfile.How{
		System: from == "system" || from == "" && c.Settings.On("system"), Supercronic: from == "supercronic", SkipBad: c.Settings.On("skip-bad-lines"),
	}
}

// loadJobs reads the files. All but the last of their problems are told here.
func loadJobs(c *cli.Call) ([]*jobfile.Job, error) {
	file, err := jobfile.Load(c.Args, jobfile.NewDefaults(), how(c))
	if wrong, ok := errors.AsType[*jobfile.Error](err); ok {
		last := len(wrong.Problems) - 1
		for _, p := range wrong.Problems[:last] {
			c.Console.Fault(problemFault(p))
		}
		return nil, problemFault(wrong.Problems[last])
	}
	if err != nil {
		return nil, cli.FileFault(err, strings.Join(c.Args, ", "))
	}
	for _, w := range file.Warnings {
		f := problemFault(w)
		c.Console.Warn(f.Error(), f.Hint)
	}
	return file.Jobs, nil
}

func problemFault(p jobfile.Problem) *cli.Fault {
	why := p.Why
	if p.What != "" {
		why = p.What + ": " + why
	}
	return &cli.Fault{Code: cli.CodeConfiguration, What: p.Place, Why: why, Hint: p.Hint}
}

// fitTTLs compares the jobs with what the backend can keep.
func fitTTLs(jobs []*jobfile.Job, limits backends.Limits) error {
	for _, j := range jobs {
		if hint, err := cli.CheckTTL(j.Timeline.TTL, limits); err != nil {
			return &cli.Fault{Code: cli.CodeConfiguration, What: j.Place + ": " + j.Name, Why: err.Error(), Hint: hint}
		}
	}
	return nil
}

// checkJobs lints the files and shows the next ticks.
func checkJobs(c *cli.Call) (cli.ExitStatus, error) {
	var jobs []*jobfile.Job
	err := launch.Beforehand(c, func() (err error) {
		jobs, err = loadJobs(c)
		return err
	})
	if err != nil {
		return cli.ExitStatus{}, err
	}
	if _, named, err := c.Backend(); err != nil {
		return cli.ExitStatus{}, err
	} else if named {
		store, err := c.OpenStore()
		if err != nil {
			return cli.ExitStatus{}, err
		}
		defer store.Close()
		if err := fitTTLs(jobs, store.Limits()); err != nil {
			return cli.ExitStatus{}, err
		}
	}
	for _, f := range lint.Inside(jobs, func(path string) []byte {
		text, _ := os.ReadFile(path) // as it was read before
		return text
	}) {
		c.Console.Warn(cli.FindingText(f), f.Remedy)
	}
	ctx, cancel := c.SignalContext()
	defer cancel()
	var look launch.Launcher
	var b strings.Builder
	for _, j := range jobs {
		if _, err := look.FindSite(ctx, j, launch.PatienceToCheck); err != nil && ctx.Err() != nil {
			return cli.ExitStatus{}, err
		} else if err != nil {
			c.Console.Warn(fmt.Sprintf("%s: %s: %v", j.Place, j.Name, err), cmp.Or(cli.HintOf(err), "a host that lacks it leaves the job to the others"))
		}
		fmt.Fprintf(&b, "%s: %s\n", cli.OneLine(j.Name), cli.OneLine(j.Schedule.String()))
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
	return cli.ExitStatus{}, c.Print(b.String())
}

// service is the daemon and what it is connected to.
type service struct {
	call     *cli.Call
	store    backends.Backend
	daemon   *daemon.Daemon
	notify   *launch.Notifier
	commands *launch.Launcher
	stop     context.CancelFunc // of the daemon: drain
	draining atomic.Bool        // nothing starts any more
	silent   atomic.Bool        // the backend did not answer when it was asked last by /readyz
}

func newService(c *cli.Call, store backends.Backend, commands *launch.Launcher, jobs []*jobfile.Job) *service {
	s := &service{call: c, store: store, notify: launch.NewNotifier(c.Settings.Lookup, launch.ReadyStandby), commands: commands}
	supervise.ReapStrays()
	supervise.KeepImage()
	host := launch.ThisHolder()
	s.daemon = daemon.New(daemon.Config{
		Store: store, Host: host, Inside: launch.Inside(), Launch: commands.Launch,
		FindUnclaimed: func(r backends.Refusal) (backends.Unclaimed, bool) { return launch.PassedUnclaimed(r, time.Now()) },
		Warn: func(j *jobfile.Job, name, text string) {
			e := runner.Event{Name: name, Level: slog.LevelWarn, Text: text}
			if j != nil {
				e.Job, e.Text = j.Name, j.Name+": "+text
			}
			c.Console.Event(e)
		},
		Removed: commands.Removed,
	}, jobs)
	return s
}

// look asks the backend once, so that what no retry mends is told at the start and not at the first tick.
func (s *service) look() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyPatience)
	defer cancel()
	_, err := s.store.Inspect(ctx, cli.ReadyProbe)
	if backends.IsPermanent(err) {
		return err
	}
	if err != nil && !errors.Is(err, backends.ErrUnknownJob) {
		s.call.Console.Warn(fmt.Sprintf("the backend does not answer: %v", err), "ticks that come due are claimed when it does, within the job's backend_wait")
	}
	return nil
}

// serve runs the daemon until it has drained.
func (s *service) serve() (cli.ExitStatus, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.stop = stop
	over := make(chan error, 1)
	panics.Go(func() { over <- s.daemon.Run(ctx) })
	s.notify.IsReady("jobs are scheduled")
	if signal.Ignored(syscall.SIGHUP) { // whoever had it ignored wants it ignored
		s.call.Console.Warn("SIGHUP is ignored here, as nohup leaves it: it does not read the file again", "start leaderrun with setsid instead of nohup")
	}
	asked := 0
	for {
		select {
		case err := <-over:
			s.notify.Close(cli.ExitStatus{})
			if err != nil {
				return cli.ExitStatus{}, &cli.Fault{Code: cli.CodeInternal, What: "the daemon", Why: err.Error(), Err: err}
			}
			return cli.ExitStatus{}, nil
		case sig := <-s.call.Signals:
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
	s.notify.IsStopping(text)
	s.call.Console.Event(runner.Event{Name: "draining", Level: slog.LevelInfo, Text: text})
}

// rereadURL takes the user and password that the backend's file has now.
func (s *service) rereadURL(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, launch.PatienceToLook)
	defer cancel()
	changed, err := s.store.Reread(ctx)
	if err != nil {
		s.call.Console.Warn(fmt.Sprintf("the backend's URL was read again, and is not taken: %v", err), cli.HintOf(err))
	} else if changed {
		s.call.Console.Event(runner.Event{Name: "reloaded", Level: slog.LevelInfo, Text: "read again: the user and password of the backend"})
	}
}

// reading is that of the files, as a thing that may hang.
type reading struct{}

// reload reads the file again. One with a problem changes nothing.
func (s *service) reload(ctx context.Context) {
	if s.draining.Load() {
		s.call.Console.Warn("received a hangup while draining: the file is not read", "")
		return
	}
	s.notify.IsReloading()
	defer s.notify.IsReady("jobs are scheduled")
	var jobs []*jobfile.Job
	var failed error
	err := s.commands.Files.Call(ctx, launch.PatienceToLook, reading{}, func() { jobs, failed = loadJobs(s.call) })
	switch {
	case err != nil:
		err = &cli.Fault{Code: cli.CodeUnavailable, What: strings.Join(s.call.Args, ", "), Why: err.Error(), Err: err}
	case failed != nil:
		err = failed
	default:
		err = fitTTLs(jobs, s.store.Limits())
	}
	s.rereadURL(ctx)
	if err != nil {
		s.call.Console.Fault(err)
		s.call.Console.Warn("the jobs stay as they were", "")
		return
	}
	if s.daemon.Reload(ctx, jobs) == nil {
		s.call.Console.Event(runner.Event{Name: "reloaded", Level: slog.LevelInfo, Text: fmt.Sprintf("%d job(s) from %s", len(jobs), strings.Join(s.call.Args, ", "))})
	}
}
