package acceptance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// Set by hand for a longer ordeal, and to repeat one: LEADERRUN_CRON_BED=30m LEADERRUN_CRON_BED_SEED=1 go test -timeout 0.
// They are read before the tests' own environment is cleared.
var (
	bedTime = os.Getenv("LEADERRUN_CRON_BED")
	bedSeed = os.Getenv("LEADERRUN_CRON_BED_SEED")
)

const (
	usualBed   = 45 * time.Second
	shortFault = 2 * time.Second // at most: a lease outlasts it
	longFault  = 6 * time.Second // at least, and twice that at most: no lease does
)

// The jobs of the ordeal. Names say what becomes of a tick whose host vanishes.
const (
	jobSkip  = "skip"       // every second, at most once
	jobRerun = "rerun"      // every other second, each tick, in order
	jobLong  = "skip-long"  // outlasts ticks and an unrenewed lease, ignores SIGTERM, and leaves an orphan behind
	jobAgain = "rerun-late" // run again, but not beside another tick
	jobExtra = "extra"      // comes and goes with a reload
)

// ordealFile is the job file. extra says whether the job that comes and goes is there.
func ordealFile(f *farm, extra bool) string {
	var b strings.Builder
	b.WriteString("timezone: UTC\ndefaults: {ttl: 5s}\njobs:\n")
	job := func(name, keys string, life time.Duration, more ...string) {
		fmt.Fprintf(&b, "  %s: {%s, command: %s}\n", name, keys, flow(witnessOf(f.dir, name, life, more...)))
	}
	job(jobSkip, "every: 1s", 200*time.Millisecond)
	job(jobRerun, "every: 2s, on_lost: rerun, max_attempts: 100000, overlap: wait, catch_up: 1000", 300*time.Millisecond)
	job(jobLong, "every: 3s", 15*time.Second, stubborn)
	job(jobAgain, "every: 3s, on_lost: rerun", time.Second)
	if extra {
		job(jobExtra, "every: 1s", 50*time.Millisecond)
	}
	return b.String()
}

// trouble is a fault that goes on.
type trouble struct {
	until time.Time
	mend  func() bool // false: it cannot be mended yet
}

// ordeal is a farm to which things happen. One goroutine does all of it.
type ordeal struct {
	*farm
	chance   *rand.Rand
	daemons  map[string]*wrapper
	troubles map[string]*trouble // by host, and of the store
	silence  func(chance *rand.Rand) (mend func())
	extra    bool
	begun    time.Time
}

const theStore = "store"

// Three hosts run one job file. Their daemons are killed, alone or with all that runs on the machine, stopped,
// restarted, reloaded, cut off, and their guardians killed; the store falls silent; all of it at random. No two runs of
// a job overlap, tokens grow, ticks go forward, a tick with skip starts at most once, and with rerun every tick has come
// to its end when the hosts have had time to make up for it.
func TestCronOfThreeHostsInTrouble(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		n, backend, server := networkWithRedis(t, cronHosts...)
		endure(t, newFarm(t, n, backend), func(*rand.Rand) func() {
			server.Stop(t)
			return func() { server.Cont(t) }
		})
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		n := hosts.NewNetwork(t, append(slices.Clone(members), cronHosts...)...)
		c := clusters["etcd"](t, n)
		endure(t, newFarm(t, n, c.url), func(chance *rand.Rand) func() {
			i := chance.IntN(len(members))
			c.process(i).Stop(t)
			return func() { c.process(i).Cont(t) }
		})
	})
}

func endure(t *testing.T, f *farm, silence func(*rand.Rand) func()) {
	t.Helper()
	length, seed := usualBed, rand.Uint64()
	var err error
	if bedTime != "" {
		if length, err = time.ParseDuration(bedTime); err != nil {
			t.Fatal(err)
		}
	}
	if end, ok := t.Deadline(); ok && time.Until(end) < length {
		t.Fatalf("%v are longer than the tests may take: give -timeout 0", length)
	}
	if bedSeed != "" {
		if seed, err = strconv.ParseUint(bedSeed, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("LEADERRUN_CRON_BED_SEED=%d", seed)
	o := &ordeal{
		farm: f, chance: rand.New(rand.NewPCG(seed, 0)), silence: silence, begun: time.Now(),
		daemons: map[string]*wrapper{}, troubles: map[string]*trouble{},
	}
	f.write(ordealFile(f, false))
	for _, host := range cronHosts {
		o.launch(host)
	}
	o.awaitTick(jobRerun, time.Now())
	for end := time.Now().Add(length); time.Now().Before(end); {
		o.mend(false)
		if o.chance.IntN(5) == 0 { // so that there are quiet moments, and several faults at once
			o.strike()
		}
		time.Sleep(200 * time.Millisecond) // between two blows
	}
	servers.Eventually(t, "everything is mended", func() bool {
		o.mend(true)
		return len(o.troubles) == 0
	})
	settled := time.Now()
	for _, job := range []string{jobSkip, jobRerun, jobAgain} {
		o.awaitTick(job, settled)
	}
	servers.Eventually(t, "a tick of "+jobLong+" has begun", func() bool {
		return last(t, o.dir, jobLong).tick > settled.Unix()
	})
	o.judge(settled)
	if t.Failed() {
		o.keepOutput()
	}
}

// keepOutput writes what all daemons said into files that stay.
func (o *ordeal) keepOutput() {
	dir, err := os.MkdirTemp("", "leaderrun-bed") // somebody has to look at it
	if err != nil {
		o.t.Fatal(err)
	}
	for i, w := range o.started {
		name := filepath.Join(dir, fmt.Sprintf("%03d-pid-%d", i, w.pid()))
		if err := os.WriteFile(name, []byte(w.said()), 0o600); err != nil {
			o.t.Fatal(err)
		}
	}
	o.t.Logf("what the daemons said is in %s", dir)
}

// say writes down what happens, for whoever has to find out what went wrong.
func (o *ordeal) say(format string, args ...any) {
	o.t.Logf("%8v %s", time.Since(o.begun).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// strike lets something happen to a host or to the store, if nothing does yet.
func (o *ordeal) strike() {
	where := o.somewhere()
	if o.troubles[where] != nil {
		return
	}
	length := time.Duration(o.chance.Int64N(int64(shortFault)))
	if o.chance.IntN(3) > 0 {
		length = longFault + time.Duration(o.chance.Int64N(int64(longFault)))
	}
	faults := []func(string) (string, func() bool){
		o.killed, o.machineDead, o.stopped, o.stopped, o.stopped, o.cutOff, o.cutOff, o.restarted, o.reloaded, o.guardianHit,
	}
	fault := faults[o.chance.IntN(len(faults))]
	if where == theStore {
		fault = o.silent
	}
	what, mend := fault(where)
	o.say("%s: %s for %v", where, what, length.Round(time.Millisecond))
	o.troubles[where] = &trouble{until: time.Now().Add(length), mend: mend}
}

// somewhere chooses whom it hits: often a host that runs something, because there is most to go wrong. The store is hit
// seldom: while it is silent nobody can take over.
func (o *ordeal) somewhere() string {
	where := cronHosts[o.chance.IntN(len(cronHosts))]
	switch o.chance.IntN(12) {
	case 0:
		return theStore
	case 1, 2, 3:
		return where
	}
	for _, i := range o.chance.Perm(len(cronHosts)) {
		if host := cronHosts[i]; o.troubles[host] == nil && len(o.guardians(host)) > 0 {
			return host
		}
	}
	return where
}

// guardians are those of the runs of a host's daemon.
func (o *ordeal) guardians(host string) []int { return guardians(o.t, o.daemons[host]) }

// guardians are those of the runs of a daemon.
func guardians(t testing.TB, daemon *wrapper) []int {
	t.Helper()
	return slices.DeleteFunc(hosts.Children(t, daemon.pid()), func(pid int) bool { return hosts.Comm(pid) != "lr-guard" })
}

// mend ends the troubles whose time has come, or all, and looks for daemons that ended by themselves.
func (o *ordeal) mend(all bool) {
	for where, trouble := range o.troubles {
		if (all || time.Now().After(trouble.until)) && trouble.mend() {
			o.say("%s: mended", where)
			delete(o.troubles, where)
		}
	}
	for host, w := range o.daemons {
		if o.troubles[host] == nil && w.ended() {
			o.t.Errorf("the daemon of %s ended by itself with code %d: %s", host, w.code(), w.said())
			o.launch(host)
		}
	}
}

// launch starts a host's daemon and waits until it is one, which signals find.
func (o *ordeal) launch(host string) {
	o.t.Helper()
	o.daemons[host] = o.start(host)
	o.shows(host, "/healthz", http.StatusOK)
}

// again starts a host's daemon when the last one has ended.
func (o *ordeal) again(host string) func() bool {
	return func() bool {
		if !o.daemons[host].ended() {
			return false
		}
		o.launch(host)
		return true
	}
}

func (o *ordeal) killed(host string) (string, func() bool) {
	o.daemons[host].signal(syscall.SIGKILL)
	return "the daemon is killed", o.again(host)
}

func (o *ordeal) machineDead(host string) (string, func() bool) {
	o.Dies(host)
	return "the machine dies", o.again(host)
}

func (o *ordeal) stopped(host string) (string, func() bool) {
	o.daemons[host].signal(syscall.SIGSTOP)
	return "the daemon is stopped", func() bool {
		o.daemons[host].signal(syscall.SIGCONT)
		return true
	}
}

func (o *ordeal) cutOff(host string) (string, func() bool) {
	hooks := [][]string{{"input", "output"}, {"input"}, {"output"}}[o.chance.IntN(3)]
	o.Drop(host, hooks...)
	return fmt.Sprint("packets are dropped: ", hooks), func() bool {
		o.Heal(host)
		return true
	}
}

func (o *ordeal) restarted(host string) (string, func() bool) {
	o.daemons[host].signal(syscall.SIGTERM)
	return "the daemon is restarted", func() bool {
		w := o.daemons[host]
		if w.ended() && w.code() != 0 {
			o.t.Errorf("the daemon of %s ended with code %d after SIGTERM: %s", host, w.code(), w.said())
		}
		return o.again(host)()
	}
}

func (o *ordeal) reloaded(host string) (string, func() bool) {
	o.extra = !o.extra
	o.write(ordealFile(o.farm, o.extra))
	o.daemons[host].signal(syscall.SIGHUP)
	return "the daemon is reloaded", func() bool { return true }
}

// guardianHit hits guardians. Until the daemon has noticed and ended what they watched over, nothing else happens to it:
// nobody promises anything where both are gone.
func (o *ordeal) guardianHit(host string) (string, func() bool) {
	sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP}[o.chance.IntN(2)]
	var hit []int
	for _, pid := range o.guardians(host) {
		hit = append(append(hit, pid), descendants(o.t, pid)...)
		_ = syscall.Kill(pid, sig)
	}
	return fmt.Sprintf("guardians get %v", sig), func() bool { return !slices.ContainsFunc(hit, hosts.Alive) }
}

func descendants(t testing.TB, pid int) []int {
	t.Helper()
	var all []int
	for _, child := range hosts.Children(t, pid) {
		all = append(append(all, child), descendants(t, child)...)
	}
	return all
}

func (o *ordeal) silent(string) (string, func() bool) {
	mend := o.silence(o.chance)
	return "silent", func() bool {
		mend()
		return true
	}
}

// awaitTick waits until a tick of a job after an instant has come to its end. A long time may have to be made up for:
// what is waited for is progress.
func (o *ordeal) awaitTick(job string, after time.Time) {
	o.t.Helper()
	for latest := int64(0); latest <= after.Unix(); {
		servers.Eventually(o.t, "a tick of "+job+" is completed", func() bool {
			time.Sleep(50 * time.Millisecond) // many spans are not read all the time
			was := latest
			for _, s := range runsOf(o.t, o.dir, job) {
				if s.over {
					latest = max(latest, s.tick)
				}
			}
			return latest > was
		})
	}
}

// judge looks at what all the runs wrote.
func (o *ordeal) judge(settled time.Time) {
	for _, job := range []string{jobSkip, jobRerun, jobLong, jobAgain, jobExtra} {
		spans := verdict(o.t, o.dir, job)
		o.say("%s: %d runs", job, len(spans))
		over := map[int64]bool{}
		for i, s := range spans {
			over[s.tick] = over[s.tick] || s.over
			if i == 0 {
				continue
			}
			was := spans[i-1]
			switch {
			case s.tick < was.tick:
				o.t.Errorf("%s: tick %d ran after tick %d", job, s.tick, was.tick)
			case s.tick == was.tick && !strings.HasPrefix(job, jobRerun):
				o.t.Errorf("%s: tick %d ran twice, with tokens %d and %d", job, s.tick, was.token, s.token)
			case s.tick == was.tick && s.attempt <= was.attempt:
				o.t.Errorf("%s: tick %d ran as attempt %d after attempt %d", job, s.tick, s.attempt, was.attempt)
			}
		}
		if job != jobRerun {
			continue
		}
		const every = 2
		for tick := spans[0].tick; tick <= settled.Unix(); tick += every {
			if !over[tick] {
				o.t.Errorf("%s: tick %d was never completed", job, tick)
			}
		}
	}
}
