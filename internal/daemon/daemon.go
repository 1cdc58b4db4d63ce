// Package daemon starts every job of a job file at its ticks, on one of the hosts that have the same file. It knows when
// jobs are due, and what happens when one is still running. The runner and the backend make sure that a tick runs once, and one at a
// time, as they do for a single run.
//
// Between two ticks nothing happens: one goroutine sleeps until the next job is due, and the backend is not asked.
// The exceptions are jobs with a catch-up, whose record is read when the daemon starts and at each tick.
package daemon

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// Store is what the daemon needs of a backend.
type Store interface {
	backends.Driver
	Inspect(ctx context.Context, job string) (backends.Status, error)
	Look(ctx context.Context, job string) (backends.Status, error)
	Order(ctx context.Context, o backends.Order) error
}

// Config is what the daemon works with. Functions are called by several goroutines at once, except where they say
// otherwise, and must not block.
type Config struct {
	Store Store
	Host  backends.Holder // host, pid and user to show
	// Inside tells the runs that have started the daemon.
	Inside backends.Inside

	// Launch returns what one attempt needs. It is called when a tick is due and must not start anything yet. For each shard of a job
	// it is called with the job under the shard's name.
	Launch func(*jobfile.Job) Launch
	// Warn is told of what is no part of an attempt; the job may be nil.
	Warn func(job *jobfile.Job, name, text string)
	// Removed is told of a job that is not in the file any more; nil: nobody wants to know.
	Removed func(job string)
	// FindUnclaimed is the runner's.
	FindUnclaimed func(backends.Refusal) (backends.Unclaimed, bool)

	Clock Clock // nil: the machine's
	// Runner's clock; nil: CLOCK_BOOTTIME.
	RunClock runner.Clock
}

// Launch is one attempt's connection to the world.
type Launch interface {
	// Look returns an error where this host lacks the command: then nothing is claimed. It returns when ctx ends, and within
	// seconds, whatever the file system does.
	Look(ctx context.Context) error
	// Observe is told of every event of the attempt, in order. It must not block.
	Observe(runner.Event)
	Tree() runner.Tree
	Env(backends.Grant) []string
	Checks() <-chan runner.Check
	// Ended is told how the attempt ended, on whatever host the tick ran. The job may be one shard of a job.
	Ended(tick time.Time, r runner.Result)
	// Worked is told, instead, what became of a tick of a job that is divided: of the shards, and as if it had been one run.
	Worked(o shards.Outcome, r runner.Result)
	// Close frees what the attempt's commands had, and waits until their output is written. No tree is alive.
	Close()
}

// How much may happen at once. What is beyond waits its turn, and is late.
const (
	startsAtOnce  = 32   // attempts between their first claim and the start of their command
	claimsAtOnce  = 32   // claims on their way to the backend
	watchesAtOnce = 64   // connections for notifications; who gets none goes by its timer
	mostWaiting   = 1000 // ticks of one job that wait for an earlier one here
)

// Daemon runs the jobs of a file. Make it with New.
type Daemon struct {
	Config
	runner *runner.Runner
	starts chan struct{} // has room for startsAtOnce

	reloads chan []*jobfile.Job
	looks   chan chan struct{} // questions whether the loop lives

	broken chan error    // a panic
	over   chan struct{} // closed when Run has ended

	mu     sync.Mutex
	jobs   map[string]*job
	queue  queue
	floors map[string]int64  // the highest token seen, by job; also of one that was removed
	going  map[*attempt]bool // that are not over, also of jobs that were removed
	active sync.WaitGroup    // counts them
}

// job is one job and where it is. The daemon's mutex guards it.
type job struct {
	*jobfile.Job
	next     time.Time  // the next tick; zero: there is none
	index    int        // in the queue; -1: not in it
	attempts []*attempt // that are not over, of this definition and of older ones
	waiting  []*attempt // of those, who waits for the ones before, under overlap wait
	busy     bool       // somebody works on waiting
	passed   int64      // the latest tick of a divided job that an earlier one was in the way of, under overlap forbid
}

// New returns a daemon for these jobs.
func New(c Config, jobs []*jobfile.Job) *Daemon {
	if c.Clock == nil {
		c.Clock = wallClock{}
	}
	d := &Daemon{
		Config: c, jobs: map[string]*job{}, floors: map[string]int64{}, going: map[*attempt]bool{}, broken: make(chan error, 1), over: make(chan struct{}),
		starts: make(chan struct{}, startsAtOnce), reloads: make(chan []*jobfile.Job), looks: make(chan chan struct{}),
	}
	d.runner = &runner.Runner{Driver: limit(c.Store, claimsAtOnce, watchesAtOnce), Clock: c.RunClock}
	d.adopt(jobs, c.Clock.Now())
	return d
}

// Run starts jobs at their ticks until ctx ends. Then nothing new is started, who waits gives up, and Run returns
// when all commands have ended by themselves, with their retries. An error is a fault of the program: the commands end
// with the process.
func (d *Daemon) Run(ctx context.Context) error {
	timer, err := d.Clock.NewTimer()
	if err != nil {
		return err
	}
	defer timer.Stop()
	defer close(d.over)
	d.fire(d.Clock.Now()) // what came due since New, before what came due earlier
	d.catchUpAll()
	for last := d.Clock.Now(); ; {
		now := d.Clock.Now()
		if stepped(last, now) {
			d.replan(now)
		}
		last = now
		timer.Set(d.fire(now))
		select {
		case <-timer.C():
		case jobs := <-d.reloads:
			d.fire(d.Clock.Now()) // what is due by the old file is started by it
			d.adopt(jobs, d.Clock.Now())
		case answer := <-d.looks:
			close(answer)
		case err := <-d.broken:
			return err
		case <-ctx.Done():
			d.giveUpAll()
			return d.awaitCommands()
		}
	}
}

// awaitCommands returns when all commands have ended. Meanwhile it answers that the daemon lives: one that were taken
// for dead would be killed, and its commands with it.
func (d *Daemon) awaitCommands() error {
	over := make(chan struct{})
	panics.Go(func() {
		defer close(over)
		d.active.Wait()
	})
	for {
		select {
		case answer := <-d.looks:
			close(answer)
		case err := <-d.broken:
			return err
		case <-over:
			return nil
		}
	}
}

// stepped says whether the wall clock was turned back.
func stepped(last, now time.Time) bool { return now.Round(0).Before(last.Round(0)) }

// Reload replaces the jobs, by name. Commands that run go on, and a tick that has come due is not lost.
func (d *Daemon) Reload(ctx context.Context, jobs []*jobfile.Job) error {
	select {
	case d.reloads <- jobs:
		return nil
	case <-d.over:
		return errOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errOver = errors.New("the daemon has ended")

// Alive returns nil if the loop that starts jobs answers before ctx ends.
func (d *Daemon) Alive(ctx context.Context) error {
	answer := make(chan struct{})
	select {
	case d.looks <- answer:
		<-answer
		return nil
	case <-d.over:
		return errOver
	case <-ctx.Done():
		return errors.New("the loop that starts jobs does not answer")
	}
}

// Running returns how many commands run here now.
func (d *Daemon) Running() int {
	n := 0
	d.each(func(a *attempt) {
		for r := range a.runs {
			if r.leads {
				n++
			}
		}
	})
	return n
}

// Signal passes a signal on to every command that runs here.
func (d *Daemon) Signal(sig os.Signal) {
	d.each(func(a *attempt) {
		for r := range a.runs {
			select {
			case r.signals <- sig:
			default:
			}
		}
	})
}

// giveUpAll lets nothing start any more.
func (d *Daemon) giveUpAll() { d.each(func(a *attempt) { a.giveUp(ErrDrain) }) }

// each calls f with every attempt that is not over.
func (d *Daemon) each(f func(*attempt)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := range d.going {
		f(a)
	}
}

// adopt makes these the daemon's jobs. What runs goes on. One whose schedule is the same keeps its place: what came due meanwhile is
// not lost. A new one, or one with another schedule, begins now.
func (d *Daemon) adopt(jobs []*jobfile.Job, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maps.Clone(d.jobs)
	for _, def := range jobs {
		j, known := d.jobs[def.Name]
		if !known {
			j = &job{index: -1}
			d.jobs[def.Name] = j
		}
		delete(left, def.Name)
		same := known && j.Schedule.Fingerprint() == def.Schedule.Fingerprint()
		j.Job = def
		if !same {
			d.plan(j, now)
		}
	}
	for name, j := range left {
		d.queue.remove(j)
		for _, a := range j.attempts {
			a.giveUp(ErrRemoved)
		}
		delete(d.jobs, name)
		if d.Removed != nil {
			d.Removed(name)
		}
	}
}

// plan finds the next tick of a job. It needs d.mu.
func (d *Daemon) plan(j *job, after time.Time) {
	next, ok := j.Schedule.Next(after)
	if !ok {
		d.queue.remove(j)
		return
	}
	j.next = next
	d.queue.put(j)
}

// replan finds every job's next tick again: it lies after now, which has gone back. Ticks that come again are
// answered by the record.
func (d *Daemon) replan(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.jobs {
		d.plan(j, now)
	}
	d.warn(nil, "clock_stepped", "the clock was turned back: the next ticks were computed again")
}

// warn tells of something that is no part of an attempt.
func (d *Daemon) warn(j *jobfile.Job, name, text string) {
	if d.Warn != nil {
		d.Warn(j, name, text)
	}
}
