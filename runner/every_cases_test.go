package runner

import (
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

// orderCase is a small world to explore, perhaps with a rule left out. It says what may happen, and what then is violated.
type orderCase struct {
	name, why string
	want      string // how the text of the violation begins; "": it holds
	only      string // what alone is looked for; "": all

	proof   backends.Proof
	hosts   int
	begins  []time.Duration // of the hosts that do not begin at once
	ask     func(i int, r *Request)
	faults  int // at once, of those in may
	quick   int // with -short; 0: one
	may     []moveKind
	whom    map[moveKind]int // the only host that something of them may befall
	slow    bool             // trees take all the time that they have to die
	exits   int              // of commands, that end well
	horizon time.Duration    // when it ends
	rules   func(*backends.Rules)
	out     leftOut
	long    bool // not with -short
	starves bool // whether somebody who comes is granted in time, in each world
	often   bool // and others come after it, for later ticks
	strict  bool // what the store has forgotten is no excuse
	unasked bool // nobody asks what became of ticks that were lost unstarted

	// Traits of the store.
	quarantines bool          // it keeps a mark
	unmarked    bool          // which it has not yet
	persists    bool          // a claim goes on although nobody waits for it any more
	evicts      bool          // what vanishes is evicted, and counted
	other       time.Duration // the longest TTL, as who claims another job believes
	replicas    int           // connected at the beginning
	isolated    int           // of them with the old master in a partition
	acks        bool          // what the replicas have not got does not count
	unnoticed   bool          // a replica may be promoted before any step has noticed it
	whole       bool          // a renewal is a change of the record too
	fromRead    bool          // the lease of a claim counts from the read
	counts      bool          // beats are counted in the record, and not by the store
	labels      bool          // whom the lease was granted to last stays written
	late        bool          // a lease ends up to a TTL late
	object      bool          // one object holds all, and nothing in it ends by itself
	skew        time.Duration // of the clocks of all hosts but the first
}

// leftOut are rules of the runner, the guardian and the store that a case leaves out.
type leftOut struct {
	countsFromReply    bool          // the lease counts from the reply, not from before the request
	noMargin           bool          // the tree may live until the lease ends, by clocks that run as they like
	notInherited       bool          // the command does not inherit the lock
	silenceFromRequest bool          // another's silence counts from before the request that showed its beat
	deafToLoss         bool          // a lease that is lost is taken for a store that is silent
	guardianBlind      bool          // the guardian starts what comes too late
	deadEarly          bool          // the tree is taken for dead with the command
	anyRecord          bool          // a swap does not compare the record
	anyLease           bool          // nor the lease
	anyMark            bool          // nor the mark
	showsUnmarked      bool          // a swap that fails shows a claim what there is, the mark unseen
	anyBeat            bool          // nor the beat, where it should
	countsAnew         bool          // numbers that tell writes apart come again in a store that forgot
	oldClock           bool          // what is known is decided on at the time when it was read
	readTime           bool          // the lease's end is what was decided, not what the store counts
	notesBeat          bool          // a note is a sign of life
	takesBeats         bool          // a note takes the beat back
	beatless           bool          // a renewal writes no beat
	trusts             bool          // a store that forgot is in no quarantine
	countsFromStart    bool          // a quarantine counts from the start of a server that forgot
	anyServer          bool          // a swap does not compare which server it is
	anyLock            bool          // a free lock proves the death of whoever ran last
	readsEnd           bool          // a repeated end writes nothing
	connectedOnly      bool          // as many acknowledgements as replicas are connected, not as were ever seen
	attachedUnseen     bool          // renewals do not notice a replica that was attached
	renewalsMark       bool          // renewals write which server it is
	evictionsUnseen    bool          // evictions are not asked for
	runOnly            bool          // a server is known by its process, not by its history
	newAtOnce          bool          // a server without a mark is taken for new
	startUnseen        bool          // a restart is not told from no restart
	againKeeps         bool          // a claim that is repeated finds its grant, and renews no lease
	silent             bool          // who gives up does not take its claim back
	longer             time.Duration // not a rule, but the TTL that the store grants; 0: the one that was asked for
}

// explorer looks at every world of a case that can be reached, depth first.
type explorer struct {
	*orderCase

	engine  *backends.Engine
	replay  replay
	clock   Instant // at which a Snapshot is looked at
	seeds   [2]maphash.Seed
	scratch []byte
	seen    map[[2]uint64]struct{}
	path    []move
	longest time.Duration // TTL
	fed     map[[2]uint64]string
	started [hosts]bool // in some world
}

// The tick that hosts come for, and the one after it.
const firstTick = 1_000_000_000 - 100

func (e *explorer) mayHappen(what moveKind, i int) bool {
	whom, isLimited := e.whom[what]
	return slices.Contains(e.may, what) && (!isLimited || whom == i)
}

func newExplorer(c *orderCase) *explorer {
	e := &explorer{orderCase: c, longest: MinTTL, fed: map[[2]uint64]string{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	e.engine = backends.NewEngine(e)
	if c.rules != nil {
		c.rules(&e.engine.Rules)
	}
	return e
}

// first returns the world in which everything begins.
func (e *explorer) first(faults int) *orders {
	w := &orders{e: e, now: boot, end: boot.Add(e.horizon), faults: faults, exits: e.exits}
	w.op.begins, w.op.tree.dieBy = never, never
	for i := range w.procs {
		p := &w.procs[i]
		p.begins, p.tree.dieBy = never, never
		if i >= e.hosts {
			continue
		}
		p.m = e.newHost(i)
		p.begins = boot
		if i < len(e.begins) {
			p.begins = boot.Add(e.begins[i])
		}
	}
	w.store.server = backends.Server{Identity: "1:1", Started: serverTime(boot) - time.Hour.Milliseconds(), Replicas: e.replicas}
	if !e.unmarked {
		w.store.mark = backends.Mark{Identity: "1:1", Longest: e.longest.Milliseconds(), Replicas: e.replicas}
		w.store.marked = w.draw() // no mark has none
	}
	return w
}

func (e *explorer) newHost(i int) *machine {
	plan, err := NewTimeline(MinTTL, -1)
	if err != nil {
		panic(err)
	}
	r := Request{Job: "job", Timeline: plan, Wait: Forever, BackendWait: 3 * time.Second}
	if e.ask != nil {
		e.ask(i, &r)
	}
	e.longest = max(e.longest, r.Timeline.TTL)
	return newMachine(r, backends.Limits{}, fmt.Sprintf("H%d", i+1))
}

// violates explores with so many faults. It returns what was violated first; the path says how.
func (e *explorer) violates(faults int) string {
	e.seen = map[[2]uint64]struct{}{}
	return e.visit(e.first(faults))
}

// maxWorlds bounds the memory that a case takes.
const maxWorlds = 2_000_000

func (e *explorer) visit(w *orders) string {
	key := e.key(w)
	if _, ok := e.seen[key]; ok {
		return ""
	}
	e.seen[key] = struct{}{}
	if len(e.seen) > maxWorlds {
		return "limit: there are too many worlds"
	}
	if wrong := e.starved(w); wrong != "" {
		return wrong
	}
	for _, v := range w.moves() {
		next := w.clone()
		next.do(v)
		e.path = append(e.path, v)
		if next.wrong != "" {
			return next.wrong
		}
		if wrong := e.visit(next); wrong != "" {
			return wrong
		}
		e.path = e.path[:len(e.path)-1]
	}
	return ""
}

// way tells how a violation came to be.
func (e *explorer) way(faults int) string {
	var text strings.Builder
	w := e.first(faults)
	w.trace = func(format string, args ...any) { fmt.Fprintf(&text, "\t"+format+"\n", args...) }
	for _, v := range e.path {
		w.trace("%6.3f %v", w.now.Sub(boot).Seconds(), v)
		w.do(v)
	}
	return text.String()
}

var all = flag.Bool("all", false, "try what is to hold with all of its faults, and not with one less")

// TestEveryOrder has real machines and the real engine meet a store in memory, and tries every order in which requests, replies,
// ends and faults can come, with few faults. What is to hold holds; where a rule is left out, the fewest faults are
// found with which that shows.
func TestEveryOrder(t *testing.T) {
	t.Parallel()
	for _, c := range orderCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.long {
				servers.SkipShort(t)
			}
			faults := c.faults
			if c.want == "" && !*all {
				least := max(c.quick, min(faults, 1))
				if faults = max(least, faults-1); testing.Short() {
					faults = least
				}
			}
			e := newExplorer(c)
			began := time.Now()
			if c.want == "" {
				wrong := e.violates(faults)
				t.Logf("%s: %d worlds, %d faults, %.1fs", c.why, len(e.seen), faults, time.Since(began).Seconds())
				if wrong != "" {
					t.Errorf("violated: %s\n%s", wrong, e.way(faults))
				}
				for i := range c.hosts {
					if !e.started[i] {
						t.Errorf("H%d never starts its command, so this shows nothing", i+1)
					}
				}
				return
			}
			for few := 0; few <= faults; few++ {
				wrong := e.violates(few)
				if wrong == "" {
					continue
				}
				t.Logf("without: %s: %d worlds, %d faults, %.1fs: %s\n%s", c.why, len(e.seen), few, time.Since(began).Seconds(), wrong, e.way(few))
				if !strings.HasPrefix(wrong, c.want) {
					t.Errorf("%q is violated, want %q", wrong, c.want)
				}
				return
			}
			t.Errorf("without: %s: nothing is violated with %d faults in %d worlds, %.1fs, want %q", c.why, faults, len(e.seen), time.Since(began).Seconds(), c.want)
		})
	}
}

// What may happen.
var (
	network = []moveKind{lateCall, lateReply}
	deaths  = []moveKind{stops, killed, unguarded, crashes, slowDeath, lateStart}
)

func happen(kinds ...any) (all []moveKind) {
	for _, k := range kinds {
		switch k := k.(type) {
		case moveKind:
			all = append(all, k)
		case []moveKind:
			all = append(all, k...)
		}
	}
	return all
}
