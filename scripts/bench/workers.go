package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// workersCommand counts what long-running workers ask of a server: when they start, at rest, and in the minute after a host has died.
// All hosts are in this process, each with a client of its own, and commands are made up. Beside them wait those who would use
// `consul lock`, and one of those who have it dies.
func workersCommand(args []string) error {
	flags := newMeasuring("workers", "nothing")
	hosts := flags.Int("hosts", 100, "how many hosts share the workers")
	n := flags.Int("shards", 1000, "how many workers there are")
	waiters := flags.Int("waiters", 1000, "how many take part in each consul lock")
	idle := flags.Duration("idle", 30*time.Second, "how long to look at them while nothing happens")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fits, err := regexp.Compile(*flags.only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leaderrun-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Printf("%d hosts, %d shards; %d waiters\n\n| | even after | requests until then | requests/s at rest | a host dies: even after | requests/s in the minute after that |\n| --- | --- | --- | --- | --- | --- |\n", *hosts, *n, *waiters)
	var failed error
	measure := func(s store, name string, makeGroup func(*server) workersGroup) {
		if !fits.MatchString(name) {
			return
		}
		if err := s.installed(); err != nil {
			fmt.Printf("| %s | not measured: %v | | | | |\n", name, err)
			return
		}
		server, err := s.serve(dir)
		if err == nil {
			err = measureWorkers(name, server, makeGroup(server), *idle)
		}
		if server != nil {
			server.stop()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, s := range append(slices.Clone(stores), etcdOfThree) {
		measure(s, s.name, func(server *server) workersGroup {
			return &workersFleet{url: server.url, shards: *n, hosts: make([]*workersHost, *hosts), runs: map[int]*madeUp{}}
		})
	}
	for _, s := range stores {
		if s.name != "Consul" {
			continue
		}
		for _, limit := range []int{1, 10} {
			measure(s, fmt.Sprintf("consul lock -n %d", limit), func(server *server) workersGroup {
				return &lockGroup{server: server, limit: limit, waiters: make([]*lockWaiter, *waiters)}
			})
		}
	}
	return failed
}

// workersGroup are those who share the workers.
type workersGroup interface {
	come() error
	settles() error // returns when all runs that should
	die()           // one of them
	end()           // all
}

func measureWorkers(name string, server *server, g workersGroup, idle time.Duration) error {
	defer g.end()
	began := time.Now()
	first, err := server.requests()
	if err != nil {
		return err
	}
	if err := g.come(); err != nil {
		return err
	}
	if err := g.settles(); err != nil {
		return err
	}
	took := time.Since(began)
	started, err := server.requests()
	if err != nil {
		return err
	}
	time.Sleep(2 * runner.DefaultTTL)
	before, err := server.requests()
	if err != nil {
		return err
	}
	time.Sleep(idle)
	after, err := server.requests()
	if err != nil {
		return err
	}
	died := time.Now()
	g.die()
	if err := g.settles(); err != nil {
		return err
	}
	again := time.Since(died)
	time.Sleep(time.Until(died.Add(time.Minute)))
	last, err := server.requests()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.0f s | %d | %.0f | %.0f s | %.0f |\n", name, took.Seconds(), started-first,
		float64(after-before)/idle.Seconds(), again.Seconds(), float64(last-after)/time.Since(died).Seconds())
	return nil
}

// workersFleet are hosts that share workers, all in this process.
type workersFleet struct {
	url    string
	shards int
	hosts  []*workersHost

	mu   sync.Mutex
	runs map[int]*madeUp
}

type workersHost struct {
	*workersFleet
	store backends.Backend
	life  context.Context //nolint:containedctx // of the host: keeping it is what ends it
	end   context.CancelFunc
	dead  atomic.Bool
}

func (f *workersFleet) come() error {
	for i := range f.hosts {
		if err := f.host(i); err != nil {
			f.hosts = f.hosts[:i]
			return err
		}
	}
	return nil
}

func (f *workersFleet) host(i int) error {
	store, err := all.Open(f.url)
	if err != nil {
		return err
	}
	h := &workersHost{workersFleet: f, store: store}
	h.life, h.end = context.WithCancel(context.Background())
	f.hosts[i] = h
	who := backends.Holder{Host: fmt.Sprint("host", i), PID: i + 1}
	leases := shards.Remember(store)
	workers := shards.Workers{
		Job: "workers", Shards: f.shards, Host: who, TTL: runner.DefaultTTL, Store: leases,
		Run: func(ctx context.Context, s shards.Shard) runner.Result { return h.run(ctx, leases, who, s) },
	}
	go func() { _, _ = workers.Keep(h.life) }()
	return nil
}

// end ends all hosts.
func (f *workersFleet) end() {
	for _, h := range f.hosts {
		h.end()
	}
}

// die ends a host without a word to anybody: its client is closed, so that nothing is released.
func (f *workersFleet) die() {
	h := f.hosts[0]
	h.dead.Store(true)
	_ = h.store.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for shard, t := range h.runs {
		if t.host == h {
			delete(h.runs, shard)
		}
	}
	h.end()
}

func (h *workersHost) run(ctx context.Context, driver backends.Driver, who backends.Holder, s shards.Shard) runner.Result {
	timeline, err := runner.NewTimeline(runner.DefaultTTL, -1)
	if err != nil {
		return runner.Result{Ending: runner.StartFailed, Err: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	return (&runner.Runner{Driver: driver}).Run(ctx, runner.Request{
		Job: slots.Name("workers", s.Number), Host: who, Timeline: timeline, Trigger: s.Trigger, Wanted: s.Wanted, BackendWait: time.Second,
		Tree: func() runner.Tree { return &madeUp{host: h, shard: s.Number, events: make(chan lifeline.Event, 2)} },
		Env:  func(backends.Grant) []string { return nil },
	})
}

// settles waits until all shards run, and all hosts that live have their share.
func (f *workersFleet) settles() error {
	const patience = 5 * time.Minute
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		running, least, most := f.shares()
		if running == f.shards && most-least <= 1 {
			return nil
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("after %v %d of %d workers run, %d to %d on each host", patience, running, f.shards, least, most)
		}
	}
}

// shares returns how many workers run, and how many hosts that live have at least and at most.
func (f *workersFleet) shares() (running, least, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	have := map[*workersHost]int{}
	for _, t := range f.runs {
		have[t.host]++
	}
	least = f.shards
	for _, h := range f.hosts {
		if !h.dead.Load() {
			least, most = min(least, have[h]), max(most, have[h])
		}
	}
	return len(f.runs), least, most
}

// madeUp is the process tree of a command that does nothing until it is told to end.
type madeUp struct {
	host   *workersHost
	shard  int
	events chan lifeline.Event
	once   sync.Once
}

// Start implements runner.Tree.
func (t *madeUp) Start([]string, []*os.File, []*os.File, runner.Deadline) error {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	t.host.runs[t.shard] = t
	return nil
}

// Signal implements runner.Tree.
func (t *madeUp) Signal(sig syscall.Signal) {
	t.once.Do(func() {
		t.host.mu.Lock()
		if t.host.runs[t.shard] == t {
			delete(t.host.runs, t.shard)
		}
		t.host.mu.Unlock()
		status := lifeline.Status{Known: true, Signal: sig}
		t.events <- lifeline.Event{Kind: lifeline.Exited, Status: status}
		t.events <- lifeline.Event{Kind: lifeline.Dead, Status: status}
		close(t.events)
	})
}

func (t *madeUp) Extend(runner.Deadline)        {}
func (t *madeUp) Terminate()                    { t.Signal(syscall.SIGTERM) }
func (t *madeUp) Kill(bool)                     { t.Signal(syscall.SIGKILL) }
func (t *madeUp) Events() <-chan lifeline.Event { return t.events }
func (t *madeUp) Close()                        {}
