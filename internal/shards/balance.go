package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// Workers are the runs of a job that never end by themselves, one for each of its shards. Every host that has come to share them
// gets as many as any other, or one more. No host tells another what to do: each knows its place among the members and how many
// there are, and so its share.
type Workers struct {
	Job    string
	Shards int
	Host   backends.Holder // host, pid and user, for people
	TTL    time.Duration
	Store  *Memory // the runs use it, too
	Inside backends.Inside
	Run    Run
	Tell   func(runner.Event) // gets the events of the workers as a whole, one at a time
}

// The names of events.
const (
	EventMember   = "member_joined"
	EventNoMember = "member_lost"
	EventPlace    = "member_place" // a place that nobody can have, or why there is none for this host yet
	EventGivenUp  = "shard_given_up"
	EventRestarts = "worker_restarting"
)

// shortestPause is the first pause before a worker that ended by itself is run again. Each is twice as long as the last, up to a TTL,
// until a run lasts for a TTL.
const shortestPause = time.Second

// Keep takes this host's share of the shards, and runs them until ctx ends. Then it starts nothing any more, but it does not end
// what runs: it waits for that. It returns the last result of each shard that ran here then, by number. It returns an error if this host
// cannot take part, after it has ended its runs: a *backends.Refusal where it is inside one of them.
func (w *Workers) Keep(ctx context.Context) ([]runner.Result, error) {
	if refusal := w.nested(ctx); refusal != nil {
		return nil, refusal
	}
	b := &balancer{
		Workers: w, tasks: map[int]*task{},
		positions: make(chan positionNews, 1), ended: make(chan endedWorker), found: make(chan discovery),
		lookedBeside: make(chan besides),
	}
	b.life, b.endLife = context.WithCancel(context.Background())
	defer b.endLife()
	return b.keep(ctx)
}

// nested returns the refusal of a process that is inside a run of one of the shards: a member of its own, it would have that run ended or
// wait for it. It asks until the store answers, or ctx ends.
func (w *Workers) nested(ctx context.Context) (refusal *backends.Refusal) {
	for again := len(w.Inside) > 0; again && ctx.Err() == nil; {
		err := Together(w.Shards, func(k int) error {
			limited, cancel := context.WithTimeout(ctx, w.TTL/6) // a connection that is dead could keep us for long
			defer cancel()
			s, err := w.Store.Inspect(limited, slots.Name(w.Job, k))
			switch holder := backends.HolderOf(&s.Record, s.Lease); {
			case err == nil && w.Inside.Has(holder):
				return &backends.Refusal{Verdict: backends.Nested, Holder: holder, Token: s.Record.Token}
			case backends.IsAnswer(err):
				return nil
			}
			return err
		})
		refusal, _ = errors.AsType[*backends.Refusal](err)
		if again = err != nil && refusal == nil; again {
			sleep(ctx, pause)
		}
	}
	return refusal
}

// balancer is the state of Keep. One goroutine uses it.
type balancer struct {
	*Workers

	telling sync.Mutex

	position position
	member   bool          // this host has a place
	tasks    map[int]*task // by shard
	leaving  bool
	life     context.Context //nolint:containedctx // of searches and watches; ends when this host leaves
	endLife  context.CancelFunc
	results  map[int]runner.Result // of the runs that ended while leaving

	positions chan positionNews
	ended     chan endedWorker
	found     chan discovery

	searching bool
	searchAt  time.Time     // when a search is due, if this host has too few shards
	lateAt    time.Time     // when one is due because of holders that seem to be dead; zero: none is
	fruitless time.Duration // the pause after the last search that found nothing; 0: it found something
	likely    []int         // shards that will probably be given up next
	glanceAt  time.Time     // when these are to be looked at

	beside        besides
	lookingBeside bool
	lookedBeside  chan besides
}

type positionNews struct {
	position
	member bool
}

// task is what this host has to do with one shard.
type task struct {
	shard int
	phase phase
	began time.Time
	stop  context.CancelCauseFunc // runs, ends
	pause time.Duration           // the last one
	until time.Time               // pauses
}

type phase int

const (
	runs   phase = iota + 1 // Run was called, and has not returned
	ends                    // the same, and the run is told to end
	pauses                  // the worker ended by itself, and is run again after a pause
)

type endedWorker struct {
	shard  int
	result runner.Result
}

func (b *balancer) keep(ctx context.Context) ([]runner.Result, error) {
	m := newMembers(b.Store, b.Job, b.Shards, b.Host, b.TTL, b.handle, func(text, hint string) {
		b.tell(runner.Event{Name: EventPlace, Level: slog.LevelWarn, Job: b.Job, Text: text, Hint: hint})
	})
	membership, leave := context.WithCancel(ctx)
	defer leave()
	left := make(chan error, 1)
	panics.Go(func() { left <- m.keep(membership) })
	var failure error
	done := ctx.Done()
	for {
		if b.leaving && len(b.tasks) == 0 && left == nil && !b.searching && !b.lookingBeside {
			return b.sorted(), failure
		}
		wake := time.NewTimer(b.act())
		select {
		case <-done:
			done = nil
			b.leave()
		case err := <-left:
			left = nil
			b.member = false
			if err != nil {
				failure = err
				b.leave()
				b.endAll()
			}
		case n := <-b.positions:
			b.stands(n)
		case e := <-b.ended:
			if err := b.ends(e); err != nil && failure == nil {
				failure = err
				leave()
				b.leave()
				b.endAll()
			}
		case d := <-b.found:
			b.finds(d)
		case b.beside = <-b.lookedBeside:
			b.lookingBeside = false
		case <-wake.C:
		}
		wake.Stop()
	}
}

// handle takes over what the members' goroutine has found out; only the last counts.
func (b *balancer) handle(s position, is bool) {
	select {
	case <-b.positions:
	default:
	}
	b.positions <- positionNews{s, is}
}

// stands takes over the place of this host and the number of members.
func (b *balancer) stands(n positionNews) {
	before, was := b.position, b.member
	b.position, b.member = n.position, n.member
	switch {
	case b.leaving:
	case !n.member && was:
		b.tell(runner.Event{
			Name: EventNoMember, Level: slog.LevelWarn, Job: b.Job,
			Text: "this host has lost its place among those that share the shards: until it has one again, it takes no others",
		})
	case n.member && n.ready && (!was || !before.ready || before.members != n.members || !slices.Equal(before.damaged, n.damaged)):
		share := n.share(b.Shards, n.members)
		b.tell(runner.Event{
			Name: EventMember, Level: slog.LevelInfo, Job: b.Job,
			Text:   fmt.Sprintf("%d of %d shards are for this host, one of %d", share, b.Shards, n.members),
			Fields: []slog.Attr{slog.Int("place", n.place), slog.Int("members", n.members), slog.Int("share", share)},
		})
		b.fruitless, b.searchAt = 0, time.Time{}
	}
}

func (b *balancer) tell(e runner.Event) {
	b.telling.Lock()
	defer b.telling.Unlock()
	if b.Tell != nil {
		b.Tell(e)
	}
}

const never = time.Duration(1<<63 - 1)

// act does what is to be done now, and returns for how long nothing is.
func (b *balancer) act() time.Duration {
	if b.leaving || !b.member {
		return never
	}
	start, end := b.next()
	if end {
		b.giveUp()
		start = 0
	}
	now := time.Now()
	wait := b.lookBeside(now)
	for _, k := range b.tasks {
		if k.phase != pauses {
			continue
		}
		if left := k.until.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		b.start(k.shard, k.pause)
	}
	if start == 0 {
		b.likely, b.fruitless, b.searchAt, b.lateAt = nil, 0, time.Time{}, time.Time{}
		return wait
	}
	if b.searching {
		return wait
	}
	search, glance := b.searchAt.Sub(now), b.glanceAt.Sub(now)
	if len(b.likely) == 0 {
		glance = never
	}
	if !b.lateAt.IsZero() {
		search = min(search, b.lateAt.Sub(now))
	}
	switch {
	case search <= 0:
		b.lateAt = time.Time{}
		b.search(start, rand.Perm(b.Shards), true) //nolint:gosec // so that hosts do not meet
	case glance <= 0:
		b.search(start, b.likely, false)
	default:
		return min(wait, search, glance)
	}
	return wait
}

// next says how many shards this host is to take, and whether it is to give one up.
func (b *balancer) next() (start int, end bool) {
	having, ending := 0, 0
	for _, k := range b.tasks {
		if k.phase == ends {
			ending++
		} else {
			having++
		}
	}
	return b.position.next(b.Shards, having, ending)
}

// giveUp ends what costs least: a pause, or else the youngest run.
func (b *balancer) giveUp() {
	var youngest *task
	for _, k := range b.tasks {
		switch {
		case k.phase == pauses:
			delete(b.tasks, k.shard)
			return
		case k.phase == runs && (youngest == nil || k.began.After(youngest.began)):
			youngest = k
		}
	}
	name := slots.Name(b.Job, youngest.shard)
	b.tell(runner.Event{
		Name: EventGivenUp, Level: slog.LevelInfo, Job: name,
		Text: fmt.Sprintf("%s: giving it up: %d hosts share the shards, and this one has too many", name, b.position.members),
	})
	youngest.end(errGivenUp)
}

// Why a run is ended, as messages say it.
var (
	errGivenUp = errors.New("another host is to run it")
	errEnding  = errors.New("this host cannot take part")
)

func (k *task) end(why error) {
	k.phase = ends
	k.stop(why)
}

// start runs one shard.
func (b *balancer) start(shard int, pause time.Duration) {
	stop, end := context.WithCancelCause(context.Background())
	b.tasks[shard] = &task{shard: shard, phase: runs, began: time.Now(), stop: end, pause: pause}
	panics.Go(func() {
		defer end(nil)
		r := b.Run(stop, Shard{Number: shard, Trigger: backends.Trigger{Parts: b.Shards}, Wanted: b.life})
		b.ended <- endedWorker{shard, r}
	})
}

// ends takes the end of a run. Its lease is released, unless it could not be.
func (b *balancer) ends(e endedWorker) error {
	k := b.tasks[e.shard]
	delete(b.tasks, e.shard)
	switch r := e.result; {
	case r.Ending == runner.Permanent:
		return r.Err
	case b.leaving:
		if b.results == nil {
			b.results = map[int]runner.Result{}
		}
		b.results[e.shard] = r
	case r.Ending == runner.Refused && r.Refusal.Verdict == backends.Reserved: // it looks free to every search
		b.searchAt = time.Now().Add(jittered(b.TTL / 3))
	case r.Ending == runner.Refused || r.Ending == runner.WaitOver: // somebody was quicker
		b.searchAt = time.Now().Add(jittered(b.TTL / 50))
	case k.phase == runs:
		b.endedByItself(k, r)
	}
	return nil
}

// endedByItself runs the shard again after a pause.
func (b *balancer) endedByItself(k *task, r runner.Result) {
	now := time.Now()
	k.pause = min(2*k.pause, b.TTL)
	if now.Sub(k.began) >= b.TTL {
		k.pause = 0
	}
	k.pause = max(k.pause, shortestPause)
	k.phase, k.until = pauses, now.Add(k.pause)
	b.tasks[k.shard] = k
	name := slots.Name(b.Job, k.shard)
	text := "%s: ended (%s): running it again in %v"
	switch r.Ending {
	case runner.Unreachable, runner.NotStarted, runner.StartFailed:
		text = "%s: could not be started (%s): trying again in %v"
	}
	b.tell(runner.Event{Name: EventRestarts, Level: slog.LevelWarn, Job: name, Text: fmt.Sprintf(text, name, how(r), k.pause)})
}

// how says how a run ended.
func how(r runner.Result) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Ending == runner.TimedOut:
		return "--timeout"
	case !r.Status.Known:
		return "nobody knows how"
	case r.Status.Signal != 0:
		return r.Status.Signal.String()
	}
	return fmt.Sprintf("code %d", r.Status.ExitCode())
}

// leave starts nothing any more.
func (b *balancer) leave() {
	b.leaving = true
	b.endLife()
	for shard, k := range b.tasks {
		if k.phase == pauses {
			delete(b.tasks, shard)
		}
	}
}

// endAll ends all runs.
func (b *balancer) endAll() {
	for _, k := range b.tasks {
		k.end(errEnding)
	}
}

// sorted returns the last results, by number of shard.
func (b *balancer) sorted() []runner.Result {
	var shards []int
	for shard := range b.results {
		shards = append(shards, shard)
	}
	slices.Sort(shards)
	results := make([]runner.Result, len(shards))
	for i, shard := range shards {
		results[i] = b.results[shard]
	}
	return results
}
