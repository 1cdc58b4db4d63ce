package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
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

// workersCommand counts what long-running workers ask of a server: when they start, at rest, and when a host dies. All hosts are in
// this process, each with a client of its own, and commands are made up. What is counted does not depend on how busy the machine is.
func workersCommand(args []string) error {
	flags := newMeasuring("workers", "nothing")
	hosts := flags.Int("hosts", 100, "how many hosts share the workers")
	n := flags.Int("shards", 1000, "how many workers there are")
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
	fmt.Printf("%d hosts, %d shards\n\n| | even after | requests until then | requests/s at rest | at a host's death: even after | requests/s meanwhile |\n| --- | --- | --- | --- | --- | --- |\n", *hosts, *n)
	var failed error
	for _, s := range stores {
		if !fits.MatchString(s.name) {
			continue
		}
		if err := s.installed(); err != nil {
			fmt.Printf("| %s | not measured: %v | | | | |\n", s.name, err)
			continue
		}
		server, err := s.serve(dir)
		if err == nil {
			err = measureWorkers(s.name, server, *hosts, *n, *idle)
		}
		if server != nil {
			server.stop()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return failed
}

func measureWorkers(name string, server *server, hosts, n int, idle time.Duration) error {
	fleet := &workersFleet{shards: n, runs: map[int]*madeUp{}}
	defer fleet.end()
	began := time.Now()
	first, err := server.requests()
	if err != nil {
		return err
	}
	for i := range hosts {
		if err := fleet.host(server.url, i); err != nil {
			return err
		}
	}
	if err := fleet.settles(n); err != nil {
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
	fleet.hosts[0].die()
	if err := fleet.settles(n); err != nil {
		return err
	}
	again := time.Since(died)
	last, err := server.requests()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.0f s | %d | %.0f | %.0f s | %.0f |\n", name, took.Seconds(), started-first,
		float64(after-before)/idle.Seconds(), again.Seconds(), float64(last-after)/again.Seconds())
	return nil
}

// workersFleet are hosts that share workers, all in this process.
type workersFleet struct {
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

func (f *workersFleet) host(url string, i int) error {
	store, err := all.Open(url)
	if err != nil {
		return err
	}
	h := &workersHost{workersFleet: f, store: store}
	h.life, h.end = context.WithCancel(context.Background())
	f.hosts = append(f.hosts, h)
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
func (h *workersHost) die() {
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
func (f *workersFleet) settles(n int) error {
	const patience = 5 * time.Minute
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if f.even(n) {
			return nil
		}
	}
	return errors.New("the workers are not even")
}

func (f *workersFleet) even(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	have := map[*workersHost]int{}
	for _, t := range f.runs {
		have[t.host]++
	}
	least, most := n, 0
	for _, h := range f.hosts {
		if !h.dead.Load() {
			least, most = min(least, have[h]), max(most, have[h])
		}
	}
	return len(f.runs) == n && most-least <= 1
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
