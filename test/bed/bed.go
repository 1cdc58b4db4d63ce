package bed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// Hosts are the machines that all want to run the same jobs.
var Hosts = []string{"a", "b", "c"}

// Programs are those that a bed starts.
type Programs struct{ Leaderrun, Witness string }

// Bed is a store, three hosts that use it, and what happens to them. One goroutine strikes; hosts start their wrappers
// from goroutines of their own.
type Bed struct {
	T        testing.TB
	Net      *hosts.Network
	Store    Store
	Running  *Running
	Way      Way
	Programs Programs
	Dir      string     // of the witnesses
	Chance   *rand.Rand // of the faults, such as which server they hit
	Seed     uint64
	Cast     Cast
	// Lasting: who stands by does not go, and what runs then does not come to an end by itself.
	Lasting bool

	registry *registry
	began    boottime.Instant
	blows    []*Blow
	prey     string // the job whose runs and wrappers faults hit

	started  atomic.Int32 // wrappers
	mu       sync.Mutex
	wrappers map[int]*End  // by pid, those that have not ended
	pids     map[int]int   // of all wrappers, by their numbers
	ends     []End         // the others
	latest   map[place]int // the pid of what wants to run a job that is always wanted
}

// place is a job on a host.
type place struct{ job, host string }

// Streams of random numbers, so that what one of them is asked for does not change what another answers.
const (
	chanceOfFaults = 100 + iota
	chanceOfTurns
	chanceOfPrey
)

// New starts a store and makes the hosts. They do nothing yet.
func New(t testing.TB, store Store, way Way, cast Cast, programs Programs, seed uint64) *Bed {
	t.Helper()
	n := hosts.NewNetwork(t, append(append([]string{}, store.Members...), Hosts...)...)
	b := &Bed{
		T: t, Net: n, Store: store, Way: way, Cast: cast, Programs: programs, Dir: servers.Dir(t), Seed: seed,
		Chance:   rand.New(rand.NewPCG(seed, chanceOfFaults)), //nolint:gosec // it has to be the same again
		wrappers: map[int]*End{}, pids: map[int]int{}, latest: map[place]int{}, began: boottime.Now(), prey: JobWorker,
	}
	b.Running = store.Start(t, n)
	var err error
	if b.registry, err = newRegistry(b.Dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.registry.close)
	return b
}

// say tells the story, for whoever has to find out what went wrong.
func (b *Bed) say(format string, args ...any) {
	b.T.Logf("%10v %s", boottime.Now().Sub(b.began).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// await waits for news of the witnesses until ok says yes, and says whether it did within a time.
func (b *Bed) await(within time.Duration, ok func() bool) bool {
	end, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		changed := b.registry.news()
		if ok() {
			return true
		}
		select {
		case <-changed:
		case <-end.Done():
			return ok()
		}
	}
}

// runs says whether each job that somebody waits for runs somewhere.
func (b *Bed) runs() bool {
	return !slices.ContainsFunc(b.standing(), func(job string) bool {
		_, ok := b.registry.runOf(job, "")
		return !ok
	})
}

// victim is a host with what runs on it.
func (b *Bed) victim(host string) Victim {
	v := Victim{Host: host}
	b.mu.Lock()
	v.Wrapper = b.latest[place{b.prey, host}]
	b.mu.Unlock()
	if run, ok := b.registry.runOf(b.prey, host); ok {
		run.Wrapper = b.pid(run.Wrapper)
		v.Run, v.Wrapper = &run, run.Wrapper
	}
	for _, pid := range hosts.Children(b.T, v.Wrapper) {
		// One that has started a command has the command as its child: a wrapper with several runs has several.
		if hosts.Comm(pid) == "lr-guard" && (v.Run == nil || slices.Contains(hosts.Children(b.T, pid), v.Run.PID)) {
			v.Guardian = pid
		}
	}
	return v
}

// pid returns the pid of a wrapper.
func (b *Bed) pid(number int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pids[number]
}

// log collects what happened. Nothing may happen any more.
func (b *Bed) log(ended boottime.Instant) (Log, error) {
	spans, err := beats.Read(b.Dir)
	if err != nil {
		return Log{}, err
	}
	for i := range spans {
		spans[i].Wrapper = b.pid(spans[i].Wrapper)
	}
	l := Log{
		Store: b.Store.Name, Way: b.Way.Name, Cast: b.Cast, TTL: b.Store.TTL, Seed: b.Seed, Began: b.began, Ended: ended,
		Quarantine: b.Running.Quarantine, Spans: spans, Ledgers: b.registry.books(),
	}
	for _, blow := range b.blows {
		l.Faults = append(l.Faults, *blow)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.Ends = append(l.Ends, b.ends...)
	for _, w := range b.wrappers {
		l.Ends = append(l.Ends, *w)
	}
	return l, nil
}
