package daemon

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
	"github.com/leaderrun/leaderrun/test/suite"
	"github.com/leaderrun/leaderrun/test/virtual"
)

// bed is a few hosts with one store, in virtual time, which begins at midnight.
type bed struct {
	t      *testing.T
	mem    *suite.Mem
	clock  virtual.Clock
	mu     sync.Mutex
	starts []start
	ends   []ending
	takes  func(job string, tick time.Time, attempt int) (time.Duration, int) // a command's time and exit code
}

type start struct {
	host, job string
	tick, at  time.Time
	token     int64
	attempt   int
	ended     time.Time
}

type ending struct {
	host, job string
	tick      time.Time
	result    runner.Result
}

// inBed runs a test in virtual time. Commands take a second.
func inBed(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &bed{t: t, mem: suite.NewMem(nil), clock: virtual.Clock{Began: time.Now()}, takes: lasting(time.Second)})
	})
}

// inBedRun runs one of several tests in virtual time.
func inBedRun(t *testing.T, name string, test func(t *testing.T, b *bed)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBed(t, test) })
}

// host is one daemon.
type host struct {
	*Daemon
	store  *virtual.Connection
	bed    *bed
	name   string
	cut    atomic.Bool  // the store does not hear it
	skew   atomic.Int64 // its clock is ahead by that, ns
	lacks  atomic.Bool  // the command is missing
	hangs  atomic.Bool  // nobody knows, until who asks gives up
	idle   atomic.Bool  // it cannot start commands
	slow   atomic.Bool  // not in time
	faults atomic.Int64 // so many times it panics before it claims
	deaf   atomic.Bool  // the store's answers to claims do not arrive, and what is taken back arrives late
	asked  atomic.Int64 // requests to the store
	stop   context.CancelFunc
	over   chan struct{}
	notes  []string
	noteMu sync.Mutex
}

func (b *bed) host(name string, jobs ...*jobfile.Job) *host { return b.hostAhead(name, 0, jobs...) }

// hostAhead is host with a clock that is ahead from the beginning.
func (b *bed) hostAhead(name string, skew time.Duration, jobs ...*jobfile.Job) *host {
	h := &host{bed: b, name: name, over: make(chan struct{})}
	h.skew.Store(int64(skew))
	h.store = &virtual.Connection{Engine: b.mem.Client(), Reach: h.reach, Answer: h.answer}
	h.Daemon = New(Config{
		Store: h.store, Host: backends.Holder{Host: name, PID: 1},
		Launch: func(j *jobfile.Job) Launch { return &fakeLaunch{host: h, job: j} },
		Warn:   h.warned,
		Clock:  fakeWall{h}, RunClock: b.clock,
	}, jobs)
	ctx, cancel := context.WithCancel(b.t.Context())
	h.stop = cancel
	go func() {
		defer close(h.over)
		if err := h.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	return h
}

func (h *host) reach(ctx context.Context, request, _ string) error {
	const late = 5 * time.Millisecond
	if request == "abandon" {
		time.Sleep(late)
	}
	h.asked.Add(1)
	if h.cut.Load() {
		return virtual.ErrCut
	}
	return ctx.Err()
}

// away cuts the host off for a while.
func (h *host) away(d time.Duration) {
	h.cut.Store(true)
	time.Sleep(d)
	h.cut.Store(false)
}

func (h *host) answer(backends.Claim, backends.Grant, error) error {
	if h.deaf.Load() {
		return virtual.ErrCut
	}
	return nil
}

func (h *host) warned(_ *jobfile.Job, name, text string) {
	h.noteMu.Lock()
	defer h.noteMu.Unlock()
	h.notes = append(h.notes, name+": "+text)
}

// end drains the hosts.
func (b *bed) end(hosts ...*host) {
	for _, h := range hosts {
		h.stop()
	}
	for _, h := range hosts {
		<-h.over
	}
}

// runs lists what was started of a job, as "hh:mm#attempt".
func (b *bed) runs(job string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	var last start
	for _, s := range b.starts {
		if s.job != job {
			continue
		}
		if s.token <= last.token || s.at.Before(last.ended) {
			b.t.Errorf("a run of %s at %v with token %d beside the one of %v with token %d", job, s.at, s.token, last.at, last.token)
		}
		last = s
		text := s.tick.UTC().Format("15:04")
		if s.attempt > 1 {
			text += fmt.Sprintf("#%d", s.attempt)
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// outcomes counts the endings of a job's attempts.
func (b *bed) outcomes(job string) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := map[string]int{}
	for _, e := range b.ends {
		if e.job != job {
			continue
		}
		name := fmt.Sprint(int(e.result.Ending))
		if e.result.Ending == runner.Refused {
			name = string(e.result.Refusal.Verdict)
		}
		if e.result.Ending == runner.Ran {
			name = "ran " + strconv.Itoa(e.result.Status.ExitCode())
		}
		counts[name]++
	}
	return counts
}

func newJob(t *testing.T, name, expr string, change func(*jobfile.Job)) *jobfile.Job {
	t.Helper()
	s, err := schedule.Parse([]string{expr}, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := runner.NewTimeline(runner.DefaultTTL, -1)
	if err != nil {
		t.Fatal(err)
	}
	j := &jobfile.Job{
		Name: name, Schedule: s, Argv: []string{"true"}, Timeline: plan,
		Options: jobfile.Options{
			TTL: plan.TTL, BackendWait: time.Minute, OnLost: backends.Skip, MaxAttempts: 3, Overlap: jobfile.Forbid,
		},
	}
	if change != nil {
		change(j)
	}
	return j
}

type fakeWall struct{ h *host }

func (c fakeWall) Now() time.Time { return time.Now().Add(time.Duration(c.h.skew.Load())) }

func (c fakeWall) NewTimer() (Timer, error) {
	t := &fakeTimer{c: make(chan struct{}, 1), wall: c}
	t.t = time.AfterFunc(time.Hour, t.ring)
	t.t.Stop()
	return t, nil
}

type fakeTimer struct {
	c    chan struct{}
	t    *time.Timer
	wall fakeWall
}

func (t *fakeTimer) ring() {
	select {
	case t.c <- struct{}{}:
	default:
	}
}

func (t *fakeTimer) C() <-chan struct{} { return t.c }
func (t *fakeTimer) Stop()              { t.t.Stop() }
func (t *fakeTimer) Set(at time.Time) {
	t.t.Reset(min(at.Sub(t.wall.Now()), longestSleep))
}

type fakeLaunch struct {
	host  *host
	job   *jobfile.Job
	grant backends.Grant
}

var errMissing = errors.New("not found in PATH")

func (l *fakeLaunch) Look(ctx context.Context) error {
	if left := l.host.faults.Load(); left > 0 {
		l.host.faults.Store(left - 1)
		panic("a fault of the test")
	}
	if l.host.hangs.Load() {
		<-ctx.Done()
		return errors.New("given up")
	}
	if l.host.lacks.Load() {
		return errMissing
	}
	return nil
}

func (l *fakeLaunch) Observe(runner.Event)        {}
func (l *fakeLaunch) Checks() <-chan runner.Check { return nil }
func (l *fakeLaunch) Close()                      {}

func (l *fakeLaunch) Env(g backends.Grant) []string {
	l.grant = g
	return nil
}

func (l *fakeLaunch) Worked(o shards.Outcome, r runner.Result) {
	l.Ended(time.Unix(o.Trigger.Tick, 0), r)
}

func (l *fakeLaunch) Ended(tick time.Time, r runner.Result) {
	b := l.host.bed
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = append(b.ends, ending{l.host.name, l.job.Name, tick, r})
}

// Tree makes a command that runs for as long as the bed says.
func (l *fakeLaunch) Tree() runner.Tree {
	h, b, t := l.host, l.host.bed, virtual.NewTree()
	var index int // of the start
	t.Begin = func([]string) error {
		if h.idle.Load() {
			return errMissing
		}
		g := l.grant
		tick := time.Unix(g.Tick, 0)
		b.mu.Lock()
		defer b.mu.Unlock()
		index = len(b.starts)
		b.starts = append(b.starts, start{host: h.name, job: l.job.Name, tick: tick, at: time.Now(), token: g.Token, attempt: g.Attempt})
		takes, code := b.takes(l.job.Name, tick, g.Attempt)
		time.AfterFunc(takes, func() { t.End(lifeline.Status{Known: true, Code: code}) })
		return nil
	}
	t.Over = func(lifeline.Status) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.starts[index].ended = time.Now()
	}
	if h.slow.Load() {
		return virtual.Late{Tree: t, Clock: b.clock}
	}
	return t
}
