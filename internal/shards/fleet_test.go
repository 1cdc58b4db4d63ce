package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/suite"
	"github.com/leaderrun/leaderrun/test/virtual"
)

// The tests of the workers run in virtual time, with the real runner.

// fleet is a store, and hosts that share the workers of one job.
type fleet struct {
	t      *testing.T
	mem    *suite.Mem
	shards int
	began  time.Time

	mu     sync.Mutex
	nodes  map[string]*node // those that are alive
	runs   map[int]string   // which host runs a shard
	last   map[int]string   // which host ran it last
	tokens map[int]int64    // the last one of a shard
	moves  int              // starts on another host than the last one
	starts int

	takes time.Duration // for the store to serve one request, one after the other; 0: no time
	busy  time.Time     // until then it serves those that have come
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	return &fleet{
		t: t, mem: suite.NewMem(nil), shards: n, began: time.Now(),
		nodes: map[string]*node{}, runs: map[int]string{}, last: map[int]string{}, tokens: map[int]int64{},
	}
}

// inFleet runs a test in virtual time, and ends all hosts.
func inFleet(t *testing.T, n int, test func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, n)
		test(t, f)
		f.close()
	})
}

// node is one host with its connection to the store.
type node struct {
	*fleet
	*virtual.Connection
	*virtual.Host
	name   string
	store  *Memory
	shards int
	dying  time.Duration // how long a command takes to end that is told to
	// oneByOne says that no two of its commands may be ending at a time, unless the host leaves.
	oneByOne bool
	leave    context.CancelFunc
	done     chan struct{} // Keep has returned

	mu       sync.Mutex
	leaving  bool
	denied   error                          // it refuses everything
	stuck    func(request, job string) bool // of what is asked now there never is an answer
	broken   string                         // the job whose record cannot be read
	requests int
	trees    []*nodeTree
	signals  []chan os.Signal
	err      error
	results  []runner.Result
	events   []runner.Event
}

func (f *fleet) newNode(name string) *node {
	h := &node{fleet: f, Host: virtual.NewHost(), name: name, shards: f.shards, done: make(chan struct{})}
	h.Connection = &virtual.Connection{Engine: f.mem.Client(), Reach: h.reach}
	return h
}

// join starts a host.
func (f *fleet) join(name string, with ...func(*node)) *node {
	h := f.newNode(name)
	h.store = Remember(h)
	for _, w := range with {
		w(h)
	}
	ctx, leave := context.WithCancel(h.Alive)
	h.leave = leave
	f.mu.Lock()
	f.nodes[name] = h
	f.mu.Unlock()
	w := Workers{
		Job: "job", Shards: h.shards, Host: backends.Holder{Host: name, PID: 1}, TTL: ttl, Store: h.store, Run: h.run,
		Tell: func(e runner.Event) { h.mu.Lock(); h.events = append(h.events, e); h.mu.Unlock() },
	}
	go func() {
		defer close(h.done)
		results, err := w.Keep(ctx)
		h.mu.Lock()
		h.results, h.err = results, err
		h.mu.Unlock()
		f.mu.Lock()
		if f.nodes[name] == h {
			delete(f.nodes, name)
		}
		f.mu.Unlock()
	}()
	return h
}

// terminate is a SIGTERM to the host's leaderrun. It returns when that has ended.
func (h *node) terminate() {
	h.mu.Lock()
	h.leaving = true
	for _, c := range h.signals {
		select {
		case c <- syscall.SIGTERM:
		default:
		}
	}
	h.mu.Unlock()
	h.leave()
	<-h.done
}

// ended waits until the host's leaderrun has ended.
func (h *node) ended(within time.Duration) {
	h.t.Helper()
	select {
	case <-h.done:
	case <-time.After(within):
		h.t.Fatalf("%s goes on", h.name)
	}
}

// die ends all that runs on the host at once. Nobody is told.
func (h *node) die() {
	h.fleet.mu.Lock()
	delete(h.nodes, h.name)
	h.fleet.mu.Unlock()
	h.Die()
}

func (h *node) reach(ctx context.Context, request, job string) error {
	h.mu.Lock()
	if h.stuck != nil && h.stuck(request, job) {
		h.mu.Unlock()
		<-ctx.Done()
		h.mu.Lock()
	}
	h.mu.Unlock()
	h.queue(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	switch err := h.Host.Reach(ctx); {
	case err != nil:
		return err
	case h.denied != nil:
		return h.denied
	case job == h.broken:
		return &backends.PermanentError{Kind: backends.Configuration, Err: errors.New("not readable")}
	}
	return nil
}

// sticks says of which requests there never is an answer, from now on.
func (h *node) sticks(at func(request, job string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stuck = at
}

// asked returns how many requests were made since it was called last.
func (h *node) asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.requests
	h.requests = 0
	return n
}

// serves says how long the store takes for a request, from now on.
func (f *fleet) serves(takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes = takes
}

// queue waits until the store has served all requests before this one. One that nobody waits for any more is served all the same.
func (f *fleet) queue(ctx context.Context) {
	f.mu.Lock()
	if f.takes == 0 {
		f.mu.Unlock()
		return
	}
	if now := time.Now(); f.busy.Before(now) {
		f.busy = now
	}
	f.busy = f.busy.Add(f.takes)
	wait := time.Until(f.busy)
	f.mu.Unlock()
	sleep(ctx, wait)
}

// tree returns the worker that was started last of those that run.
func (h *node) tree() *nodeTree {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range slices.Backward(h.trees) {
		if t.Running() {
			return t
		}
	}
	h.t.Fatal("nothing runs on " + h.name)
	return nil
}

// running returns the host that runs a shard, or "".
func (f *fleet) running(shard int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs[shard]
}

// exited is the end of a command that ended by itself.
func exited(code int) lifeline.Status { return lifeline.Status{Known: true, Code: code} }

// run is the Run of a host, with the real runner.
func (h *node) run(stop context.Context, s Shard) runner.Result {
	timeline, err := runner.NewTimeline(ttl, -1)
	if err != nil {
		h.t.Error(err)
	}
	signals := make(chan os.Signal, 1)
	h.mu.Lock()
	h.signals = append(h.signals, signals)
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(h.Alive, cancel)()
	return (&runner.Runner{Driver: h.store, Clock: virtual.Clock{Began: h.began}}).Run(ctx, runner.Request{
		Job: slots.Name("job", s.Number), Host: backends.Holder{Host: h.name, PID: 1}, Timeline: timeline, BackendWait: time.Second,
		Trigger: s.Trigger, Wanted: s.Wanted, Signals: signals,
		Tree: func() runner.Tree {
			t := &nodeTree{node: h, Tree: virtual.NewTree(), shard: s.Number}
			t.Begin, t.Told = t.begin, t.told
			t.Over = func(lifeline.Status) {
				h.fleet.mu.Lock()
				defer h.fleet.mu.Unlock()
				delete(h.runs, t.shard)
			}
			h.Add(t.Tree)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.trees = append(h.trees, t)
			return t
		},
		Env: func(g backends.Grant) []string { return []string{strconv.FormatInt(g.Token, 10)} },
	})
}

// nodeTree is a worker that never ends by itself.
type nodeTree struct {
	*node
	*virtual.Tree
	shard int

	mu     sync.Mutex
	ending bool
	slow   bool // it takes half a TTL to end
}

// begin checks what must never happen: a shard in two places, or a token that does not grow.
func (t *nodeTree) begin(env []string) error {
	token, _ := strconv.ParseInt(env[0], 10, 64)
	if t.IsDead() {
		return errors.New("the host is dead")
	}
	f := t.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if other, taken := f.runs[t.shard]; taken {
		f.t.Errorf("%s starts shard %d, which %s runs", t.name, t.shard, other)
	}
	if token <= f.tokens[t.shard] {
		f.t.Errorf("the token of shard %d is %d after %d", t.shard, token, f.tokens[t.shard])
	}
	if before := f.last[t.shard]; before != t.name && before != "" {
		f.moves++
	}
	f.starts++
	f.runs[t.shard], f.last[t.shard], f.tokens[t.shard] = t.name, t.name, token
	return nil
}

// told ends the worker, after the time that its host's take.
func (t *nodeTree) told(sig syscall.Signal) {
	t.mu.Lock()
	first := !t.ending && t.Running()
	t.ending = true
	takes := t.dying
	if t.slow {
		takes = ttl / 2
	}
	t.mu.Unlock()
	if first && t.oneByOne && t.endsAnother() {
		t.t.Errorf("%s ends shard %d, and another is not dead yet", t.name, t.shard)
	}
	if first {
		time.AfterFunc(takes, func() { t.End(lifeline.Status{Known: true, Signal: sig}) })
	}
}

// endsAnother says whether another worker of the host is ending, for another reason than the end of the host.
func (t *nodeTree) endsAnother() bool {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	return !t.leaving && !t.IsDead() && slices.ContainsFunc(t.trees, func(o *nodeTree) bool {
		if o == t {
			return false
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.ending && o.Running()
	})
}

// since says how much time has passed.
func (f *fleet) since() time.Duration { return time.Since(f.began) }

// counts returns how many shards each living host runs.
func (f *fleet) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int{}
	for name := range f.nodes {
		counts[name] = 0
	}
	for _, name := range f.runs {
		counts[name]++
	}
	return counts
}

// balanced says whether all shards run, and no host has two more than another.
func (f *fleet) balanced() bool {
	counts := slices.Sorted(maps.Values(f.counts()))
	running := 0
	for _, n := range counts {
		running += n
	}
	return len(counts) > 0 && running == f.shards && counts[len(counts)-1]-counts[0] <= 1
}

// settle waits until the fleet is balanced and stays so for three TTLs, and returns when it was.
func (f *fleet) settle(within time.Duration) time.Duration {
	f.t.Helper()
	began := f.since()
	at, moves := time.Duration(-1), 0
	for at < 0 || f.since()-at < 3*ttl {
		if f.since()-began > within+3*ttl {
			f.t.Fatalf("%d shards are not balanced after %v: %v", f.shards, within, f.counts())
		}
		f.mu.Lock()
		now := f.moves
		f.mu.Unlock()
		switch {
		case !f.balanced():
			at = -1
		case at < 0 || now != moves:
			at, moves = f.since(), now
		}
		time.Sleep(100 * time.Millisecond)
	}
	return at - began
}

// takeMoves returns how many shards have moved since it was called last.
func (f *fleet) takeMoves() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.moves
	f.moves = 0
	return n
}

// close ends all hosts.
func (f *fleet) close() {
	f.mu.Lock()
	var all []*node
	for _, h := range f.nodes {
		all = append(all, h)
	}
	f.mu.Unlock()
	var wait sync.WaitGroup
	for _, h := range all {
		wait.Go(h.terminate)
	}
	wait.Wait()
}

func nodeName(i int) string { return fmt.Sprint("host", i) }
