package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
	"github.com/leaderrun/leaderrun/test/suite"
)

// bed is a few hosts with one store, in virtual time, which begins at midnight.
type bed struct {
	t      *testing.T
	mem    *suite.Mem
	mu     sync.Mutex
	starts []start
	ends   []ending
	takes  func(job string, tick time.Time, attempt int) (time.Duration, int) // a command's time and exit code

	silence atomic.Pointer[chan struct{}] // nil: the store answers
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

func virtual(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := suite.NewMem(nil)
		test(t, &bed{t: t, mem: mem, takes: func(string, time.Time, int) (time.Duration, int) { return time.Second, 0 }})
	})
}

// host is one daemon.
type host struct {
	*Daemon
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
	h.Daemon = New(Config{
		Store: cutStore{b.mem, h}, Host: backends.Holder{Host: name, PID: 1},
		Launch: func(j *jobfile.Job) Launch { return &fakeLaunch{host: h, job: j} },
		Warn:   h.warned,
		Clock:  fakeWall{h}, RunClock: fakeBoot{},
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

// fakeBoot is the runner's clock in virtual time.
type fakeBoot struct{}

var epoch = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

func (fakeBoot) Now() runner.Instant { return runner.Instant(time.Since(epoch)) }

func (c fakeBoot) NewTimer() (runner.Timer, error) {
	t := &fakeBootTimer{fakeTimer{c: make(chan struct{}, 1)}}
	t.t = time.AfterFunc(time.Hour, t.ring)
	t.t.Stop()
	return t, nil
}

type fakeBootTimer struct{ fakeTimer }

func (t *fakeBootTimer) Set(at boottime.Instant) { t.t.Reset(at.Sub(fakeBoot{}.Now())) }

// cutStore is the store as a host sees it.
type cutStore struct {
	*suite.Mem
	h *host
}

var errCut = errors.New("cut off")

// ask makes a request, as long as the host reaches the store. One that the store does not answer is carried out all the
// same, when it wakes up.
func ask[T any](ctx context.Context, s cutStore, request func(context.Context) (T, error)) (T, error) {
	s.h.asked.Add(1)
	if s.h.cut.Load() {
		return *new(T), errCut
	}
	silence := s.h.bed.silence.Load()
	if silence == nil {
		return request(ctx)
	}
	type reply struct {
		result T
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		<-*silence
		result, err := request(context.WithoutCancel(ctx))
		replies <- reply{result, err}
	}()
	select {
	case r := <-replies:
		return r.result, r.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// fallSilent lets the store answer nobody until the function that it returns is called.
func (b *bed) fallSilent() (wake func()) {
	silence := make(chan struct{})
	b.silence.Store(&silence)
	return func() {
		b.silence.Store(nil)
		close(silence)
	}
}

func (s cutStore) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	return ask(ctx, s, func(ctx context.Context) (backends.Grant, error) {
		grant, err := s.Mem.Acquire(ctx, c)
		if s.h.deaf.Load() {
			return backends.Grant{}, errCut
		}
		return grant, err
	})
}

func (s cutStore) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	return ask(ctx, s, func(ctx context.Context) (backends.RenewAnswer, error) { return s.Mem.Renew(ctx, g) })
}

func (s cutStore) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	_, err := ask(ctx, s, func(ctx context.Context) (any, error) { return nil, s.Mem.Finish(ctx, g, o) })
	return err
}

func (s cutStore) Abandon(ctx context.Context, c backends.Claim) error {
	const late = 5 * time.Millisecond
	time.Sleep(late)
	_, err := ask(ctx, s, func(ctx context.Context) (any, error) { return nil, s.Mem.Abandon(ctx, c) })
	return err
}

func (s cutStore) Inspect(ctx context.Context, job string) (backends.Status, error) {
	return ask(ctx, s, func(ctx context.Context) (backends.Status, error) { return s.Mem.Inspect(ctx, job) })
}

func (s cutStore) Look(ctx context.Context, job string) (backends.Status, error) {
	return ask(ctx, s, func(ctx context.Context) (backends.Status, error) { return s.Mem.Look(ctx, job) })
}

func (s cutStore) Order(ctx context.Context, o backends.Order) error {
	_, err := ask(ctx, s, func(ctx context.Context) (any, error) { return nil, s.Mem.Order(ctx, o) })
	return err
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

func (l *fakeLaunch) Tree() runner.Tree {
	return &fakeTree{launch: l, events: make(chan lifeline.Event, 8)}
}

// fakeTree runs for as long as the bed says.
type fakeTree struct {
	launch *fakeLaunch
	events chan lifeline.Event
	once   sync.Once
	timer  *time.Timer
	index  int
}

func (t *fakeTree) Start(_ []string, _, _ []*os.File, d runner.Deadline) error {
	if t.launch.host.idle.Load() {
		return errMissing
	}
	if t.launch.host.slow.Load() {
		time.Sleep(d.Term.Sub(fakeBoot{}.Now()))
		return errMissing
	}
	g, b := t.launch.grant, t.launch.host.bed
	tick := time.Unix(g.Tick, 0)
	b.mu.Lock()
	defer b.mu.Unlock()
	t.index = len(b.starts)
	b.starts = append(b.starts, start{
		host: t.launch.host.name, job: t.launch.job.Name, tick: tick, at: time.Now(), token: g.Token, attempt: g.Attempt,
	})
	takes, code := b.takes(t.launch.job.Name, tick, g.Attempt)
	t.timer = time.AfterFunc(takes, func() { t.die(lifeline.Status{Known: true, Code: code}) })
	return nil
}

func (t *fakeTree) die(s lifeline.Status) {
	t.once.Do(func() {
		b := t.launch.host.bed
		b.mu.Lock()
		b.starts[t.index].ended = time.Now()
		b.mu.Unlock()
		t.timer.Stop()
		t.events <- lifeline.Event{Kind: lifeline.Exited, Status: s}
		t.events <- lifeline.Event{Kind: lifeline.Dead, Status: s}
		close(t.events)
	})
}

func (t *fakeTree) Extend(runner.Deadline) {}
func (t *fakeTree) Close()                 {}
func (t *fakeTree) Signal(sig syscall.Signal) {
	t.die(lifeline.Status{Known: true, Signal: sig})
}
func (t *fakeTree) Terminate()                    { t.Signal(syscall.SIGTERM) }
func (t *fakeTree) Kill(bool)                     { t.Signal(syscall.SIGKILL) }
func (t *fakeTree) Events() <-chan lifeline.Event { return t.events }
