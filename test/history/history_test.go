package history

import (
	"cmp"
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/alone"
	"github.com/leaderrun/leaderrun/test/servers"
)

// Set by hand for more of it, and to repeat what was decided at random (how steps interleave is up to the machine):
// LEADERRUN_HISTORY=10m LEADERRUN_HISTORY_SEED=1 go test -timeout 0.
const (
	durationVariable = "LEADERRUN_HISTORY"
	seedVariable     = "LEADERRUN_HISTORY_SEED"
	usual            = 20 * time.Second
)

// How many jobs are contended for at the same time: few where a lease or a connection costs the server a lot, or it would
// be the machine that keeps it from answering.
const (
	teamsOfStore = 10
	fewTeams     = 4
)

// partsOfJob is into how many shards the work of every other job is divided. A history is that of one of them.
const partsOfJob = 4

func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

func duration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(durationVariable)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", durationVariable, err)
	}
	return d
}

// TestHistories: whatever network and server do, what the drivers answer is what one lease could have done: nobody is
// granted while a holder may trust its lease, no renewal or end of a superseded run is accepted, tokens grow, a claim
// that is repeated gets its token again, and a tick that was granted is not granted once more.
func TestHistories(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	alone.Await()
	seed := newSeed(t)
	for _, s := range []struct {
		name string
		make func(t *testing.T) world
	}{
		{"file", fileWorld},
		{"redis", redisWorld},
		{"etcd", etcdWorld},
		{"consul", consulWorld},
		{"zookeeper", zookeeperWorld},
		{"kubernetes", kubernetesWorld},
		{"postgres", postgresWorld},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, s.make(t), seed)
			c.last(duration(t))
			t.Logf("%v", &c.total)
			c.skipIfBusy()
			if c.total.grants == 0 || c.total.lost == 0 || c.total.unknown == 0 || c.total.verdicts[gone] == 0 {
				t.Errorf("not enough has happened to judge anything")
			}
		})
	}
}

// contest is many teams of clients that contend for a job each, and for another one when they have had enough of it.
type contest struct {
	world
	t       *testing.T
	seed    uint64
	teams   [][]backends.Driver
	proxies []*servers.Proxy
	total   total
	judging sync.Mutex // one at a time: clients and server need the machine too
	illegal atomic.Bool
	found   func(judgement) // is told of the first impossible history
	played  func(*history)  // is told of every history
}

func newContest(t *testing.T, w world, seed uint64) *contest {
	t.Helper()
	c := &contest{world: w, t: t, seed: seed}
	for range cmp.Or(w.teams, teamsOfStore) {
		var team []backends.Driver
		for range clientsOfJob {
			d, p := w.open(t)
			team = append(team, d)
			if p != nil {
				c.proxies = append(c.proxies, p)
			}
		}
		c.teams = append(c.teams, team)
	}
	c.played = func(*history) {}
	c.found = func(j judgement) {
		t.Errorf("no lease can have done this: %s (%s=%d)\n%v", j.picture, seedVariable, seed, j)
	}
	return c
}

// last lets the teams work under faults for so long, or until an impossible history is found.
func (c *contest) last(d time.Duration) {
	c.t.Helper()
	ctx, end := context.WithTimeout(c.t.Context(), d)
	defer end()
	faults := disturbAll(ctx, c.proxies, c.seed)
	var all sync.WaitGroup
	for i := range c.teams {
		all.Go(func() { c.play(ctx, end, i) })
	}
	random := mathrand.New(mathrand.NewPCG(c.seed, 1))
	for n := 0; len(c.faults) > 0; n++ {
		pause(ctx, 2*time.Second+time.Duration(random.Int64N(int64(4*time.Second))))
		if ctx.Err() != nil {
			break
		}
		c.faults[n%len(c.faults)](c.t, random)
	}
	faults.Wait()
	all.Wait()
}

// skipIfBusy skips a test in which the machine, not the faults, kept the stores from answering.
func (c *contest) skipIfBusy() {
	c.t.Helper()
	if !c.illegal.Load() && 2*c.total.unjudged > c.total.histories {
		c.t.Skipf("this machine is too busy: %v", &c.total)
	}
}

// play lets one team work on one job after another, and judges what came of each.
func (c *contest) play(ctx context.Context, end func(), team int) {
	for round := uint64(0); ctx.Err() == nil; round++ {
		h := newHistory(fmt.Sprintf("job %d-%d", team, round), c.world)
		var latest atomic.Int64
		var all sync.WaitGroup
		first := time.Now().Unix() - 7200
		if round%4 == 3 {
			first = 0
		}
		parts := 0
		if round%2 == 0 {
			parts = partsOfJob
		}
		for i, d := range c.teams[team] {
			random := mathrand.New(mathrand.NewPCG(c.seed+round<<32, uint64(100*team+i+2)))
			one := &client{history: h, t: c.t, id: i, driver: d, random: random, ttl: c.ttl, latest: &latest, first: first, parts: parts}
			all.Go(func() { one.work(ctx) })
		}
		all.Wait()
		c.judge(h, end)
	}
}

func (c *contest) judge(h *history, end func()) {
	c.total.add(h.operations)
	c.played(h)
	c.judging.Lock()
	defer c.judging.Unlock()
	known, flights := h.split()
	if 2*len(known) < len(h.operations) { // on a machine that is too busy
		c.total.unjudged++
		return
	}
	switch j := judge(known, flights, h.lasting); j.verdict {
	case porcupine.Illegal:
		if !c.illegal.Swap(true) { // one is enough to read
			c.found(j)
		}
		end()
	case porcupine.Unknown:
		c.total.unjudged++
	case porcupine.Ok:
	}
}
