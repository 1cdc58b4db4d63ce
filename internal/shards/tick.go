package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// Tick is one tick or key of a job whose work is divided. Every host that comes works through the shards that nobody has done for
// it. Whether a shard may be run is decided by each claim, as for any job.
//
// Into how many shards a tick is divided is settled by shard 0: all hosts use the number that its record has, and none claims
// another shard before that record has the tick. Where it is gone, the records of the others tell.
type Tick struct {
	Store    Store // as Remember returns it; the runs use it, too
	Job      string
	Trigger  backends.Trigger // of the tick or key. Parts: the number of shards, as this host was told
	Parallel int              // how many shards are run here at a time; at least 1
	TTL      time.Duration    // of the leases
	// Wait is how long to stand by while nothing can be run here, and other hosts run shards; runner.Forever: until all are over.
	Wait        time.Duration
	Inside      backends.Inside // the runs that have started this process: none of them may have one of the shards
	BackendWait time.Duration   // how long a store is asked again that does not answer
	// SameTickOnly ends the wait if shards of an earlier tick are in the way.
	SameTickOnly bool

	Run  Run
	Warn func(name, text, hint string)
	Tell func(runner.Event) // is told when the host begins to stand by; nil: nobody is
	// Wanted ends when nothing may start any more.
	Wanted context.Context //nolint:containedctx // it is narrower than that of Work
}

// The names of what Warn is told of.
const (
	EventDiffers = "shards_differ"
	EventLeft    = "shards_left"
	EventLost    = "shards_lost"
	EventBroken  = "shards_broken"
)

// work is the work on one tick or key. One goroutine does it; runs and looks are beside it.
type work struct {
	*Tick
	trigger   backends.Trigger // with the number of shards that was settled
	watches   map[int]context.CancelFunc
	news      chan int      // shards of which there is news
	results   chan finished // of runs here
	running   int
	stop      *runner.Result    // why nothing is started here any more
	stopShard int               // whose run it was; -1: of none
	busy      *backends.Refusal // what is in the way of the tick as a whole
	cleared   int64             // an earlier tick that is not in the way
	idle      time.Time         // since when nothing can be run here; zero: something can
	notBegun  int               // how many commands in a row could not be started in time
	before    []Outcome

	mu    sync.Mutex
	parts []part
}

type finished struct {
	shard   int
	result  runner.Result
	earlier bool // it was claimed for an earlier tick
}

// nearTick is how far ahead a tick may be that is waited for. One that lies further ahead is refused by the store.
const nearTick = 5 * time.Second

// mostNotBegun is after how many commands that could not be started in time a host gives up, so that it does not try for ever.
const mostNotBegun = 10

// Work works through the tick, and returns when nothing is left that this host could run, or when it must not go on: then the commands
// that run here have ended by themselves. When ctx ends, they are asked to end. It is called once.
func (t *Tick) Work(ctx context.Context) Outcome {
	if ahead := time.Until(time.Unix(t.Trigger.Tick, 0)); t.Trigger.Tick != 0 && ahead < nearTick {
		sleep(t.Wanted, ahead)
	}
	w := newWork(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the watches
	if w.settle(ctx) {
		w.drive(ctx)
	}
	w.lookBack(ctx)
	return w.outcome()
}

func newWork(t *Tick) *work {
	w := &work{
		Tick: t, trigger: t.Trigger, watches: map[int]context.CancelFunc{}, news: make(chan int),
		results: make(chan finished, max(t.Parallel, 1)), stopShard: -1, parts: make([]part, t.Trigger.Parts),
	}
	return w
}

// settle finds out into how many shards the tick is divided. If nobody has begun it, this host does, with shard 0. false: it cannot be
// worked through here, or not now.
func (w *work) settle(ctx context.Context) bool {
	for w.wanted() {
		s, err := w.inspect(w.Wanted, 0)
		lost := false
		if err == nil && mayBeGone(&s.Record, w.trigger) {
			lost, err = w.askOthers(&s)
		}
		if err != nil {
			w.cannotAsk(err)
			return false
		}
		o, known := occurrence(&s.Record, w.trigger)
		switch {
		case known && w.trigger.Tick != 0 && (s.Record.Tick.Tick != w.trigger.Tick || o.State == backends.Missed):
			w.sumUp()
			return false
		case known:
			w.adopt(o.Parts)
			if lost {
				w.lose()
				w.Warn(EventLost, fmt.Sprintf("the record of %s is lost: this %s was begun there, as other shards show, and it does not run again", slots.Name(w.Job, 0), w.what()), w.forgetting())
			}
			return true
		case w.inTheWay(ctx, s, lost):
		case !w.wanted():
			return false
		case w.parts[0].standing == held && (s.Lease != nil || w.parts[0].refusal.Verdict == backends.Reserved): // a claim still would be refused
			w.busy = w.parts[0].refusal
		case w.begin(ctx):
			return true
		default: // who was quicker has begun the tick, or the store has said why not
			if p := &w.parts[0]; p.standing == left {
				p.standing, p.result = unknown, nil
			}
			continue
		}
		if !w.wanted() {
			return false
		}
		if _, more := w.standBy(ctx, []int{0}); !more {
			return false
		}
		w.busy, w.parts[0].standing = nil, unknown
	}
	return false
}

// sumUp finds out what became of a tick for which nothing is run any more: it was too late for shard 0, or a later tick was begun, and
// into how many shards this one was divided nobody knows any more.
func (w *work) sumUp() {
	if err := w.look(w.Wanted, w.all()); err != nil {
		w.cannotAsk(err)
		return
	}
	for _, k := range w.open() {
		if p := &w.parts[k]; p.standing != held {
			p.standing, p.state = over, backends.Missed
		}
	}
}

// adopt takes the number of shards that was settled.
func (w *work) adopt(n int) {
	if n <= 0 || n > Most { // of a tick that was forgotten
		n = w.trigger.Parts
	}
	if n != w.trigger.Parts {
		w.Warn(EventDiffers, fmt.Sprintf("this %s of %s is divided into %d, and here into %d: it is done as it was begun", w.what(), w.Job, n, w.trigger.Parts),
			"give all hosts the same --shards")
		w.trigger.Parts = n
		w.parts = make([]part, n)
	}
}

// lose takes shard 0 for lost.
func (w *work) lose() { w.parts[0] = part{standing: over, state: backends.Lost} }

func (w *work) what() string {
	if w.trigger.Once != "" {
		return "key"
	}
	return "tick"
}

// forgetting says how an operator has all shards run again.
func (w *work) forgetting() string {
	option := "--forget-tick"
	if w.trigger.Once != "" {
		option = "--forget-once " + w.trigger.Once
	}
	return fmt.Sprintf("`leaderrun break %s %s` lets all shards run again", option, w.Job)
}

// begin runs shard 0, and returns as soon as its record says into how many shards the tick is divided. false: another host is before
// us, or it must not be run.
func (w *work) begin(ctx context.Context) bool {
	acquired := make(chan struct{})
	w.start(ctx, 0, func(e runner.Event) {
		if e.Name == runner.EventAcquired && e.Tick == w.trigger.Tick {
			close(acquired)
		}
	})
	select {
	case <-acquired:
		return true
	case f := <-w.results:
		w.ended(f)
	}
	select {
	case <-acquired: // it was short
		return true
	default:
		return false
	}
}

// inTheWay says whether an earlier tick has to be over first. One that may run again is worked through here before, as the run of a
// single job would be; another one must not be running anywhere. Else the later tick would take the shards that the earlier one has
// not come to.
func (w *work) inTheWay(ctx context.Context, s backends.Status, lost bool) bool {
	last := s.Record.Tick
	if w.trigger.Tick == 0 || last.Tick == 0 || last.Parts == 0 || last.Parts > Most || last.Tick == w.cleared {
		return false
	}
	earlier := *w.Tick
	earlier.Trigger.Tick, earlier.Trigger.Parts = last.Tick, last.Parts
	if w.SameTickOnly {
		earlier.Wait = 0
	}
	sub := newWork(&earlier)
	if lost {
		sub.lose()
	}
	late := w.trigger.StartDeadline > 0 && time.Since(time.Unix(last.Tick, 0)) > w.trigger.StartDeadline
	if last.Policy == backends.Rerun && w.trigger.OnLost == backends.Rerun && !late {
		one, end := context.WithCancel(ctx)
		sub.drive(one)
		end() // its watches
		out := sub.outcome()
		w.before = append(w.before, out)
		late = isLate(out.Stop) // its start deadline came meanwhile, and what is left of it is missed
		switch {
		case late:
		case out.Stop != nil:
			w.stop, w.stopShard = out.Stop, out.StopShard
			return true
		case out.IsOver():
			w.cleared = last.Tick
			return false
		case out.Running == 0 && out.Bad != nil: // nobody works on it, and this host is not to
			w.stop, w.stopShard = out.Bad, out.BadShard
			return true
		default:
			w.busy, w.idle = &backends.Refusal{Verdict: backends.Held, Tick: last.Tick, Holder: sub.holder()}, sub.idle
			return true
		}
	}
	for range 2 { // between two shards, a host that works holds none
		if err := sub.look(w.Wanted, sub.all()); err != nil {
			w.cannotAsk(err)
			return true
		}
		if sub.count(held) > 0 {
			w.busy = &backends.Refusal{Verdict: backends.Held, Tick: last.Tick, Holder: sub.holder()}
			return true
		}
		if sub.count(over) == last.Parts {
			break
		}
		sleep(w.Wanted, pause)
	}
	if o := sub.outcome(); o.Open > 0 && w.wanted() {
		hint := "--on-lost rerun has the hosts of the next tick finish it"
		if late {
			hint = "it is later than --start-deadline"
		}
		w.Warn(EventLeft, fmt.Sprintf("the tick %s of %s was left with %d of %d shards done", time.Unix(last.Tick, 0).UTC().Format(time.RFC3339), w.Job, o.Done, last.Parts), hint)
	}
	w.cleared = last.Tick
	return false
}

// isLate says whether a tick was refused because its start deadline is over.
func isLate(r *runner.Result) bool {
	return r != nil && r.Ending == runner.Refused && r.Refusal != nil && r.Refusal.Verdict == backends.Late
}

// drive runs what can be run here, until nothing is left or nothing may start any more.
func (w *work) drive(ctx context.Context) {
	fresh := false // all that is not over was looked at after the last run
	for {
		for w.wanted() && w.running < max(w.Parallel, 1) {
			k := w.next()
			if k < 0 {
				break
			}
			w.start(ctx, k, nil)
			fresh = false
		}
		open := w.open()
		switch {
		case w.running > 0 && (fresh && w.Wait == 0 || w.running >= max(w.Parallel, 1) || !w.wanted()):
			w.ended(<-w.results)
			fresh = false
		case w.running == 0 && (!w.wanted() || len(open) == 0):
			return
		case fresh:
			var more bool
			if open, more = w.standBy(ctx, open); !more {
				return
			}
			fallthrough
		default:
			if err := w.look(w.Wanted, open); err != nil {
				w.cannotAsk(err)
			}
			fresh = true
		}
	}
}

// standBy waits until some of these shards are to be looked at again: those of which there is news, or after a while all. more is
// false where nobody wants to wait any longer.
func (w *work) standBy(ctx context.Context, numbers []int) (again []int, more bool) {
	left := w.Wait
	switch {
	case w.running > 0:
	case w.idle.IsZero():
		w.idle = time.Now()
		w.tellStandby(left)
	case w.Wait != runner.Forever:
		left -= time.Since(w.idle)
	}
	if w.running == 0 && (left <= 0 || w.SameTickOnly && w.busy != nil) {
		return nil, false
	}
	w.follow(ctx, numbers)
	every := w.TTL/3 + rand.N(w.TTL/10) //nolint:gosec // not a secret
	if w.running == 0 {
		every = min(every, left)
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-timer.C:
		return numbers, true
	case k := <-w.news:
		return []int{k}, true
	case f := <-w.results:
		w.ended(f)
		return []int{f.shard}, true
	case <-w.Wanted.Done():
		return nil, true
	}
}

func (w *work) tellStandby(left time.Duration) {
	if w.Tell == nil || left <= 0 || !w.wanted() {
		return
	}
	text := fmt.Sprintf("standing by: %d shards run elsewhere", w.count(held))
	if w.busy != nil {
		text = "standing by: an earlier tick, or another key, is in the way"
	}
	w.Tell(runner.Event{Name: runner.EventStandby, Level: slog.LevelInfo, Job: w.Job, Tick: w.trigger.Tick, Text: text})
}

// wanted says whether something may start here.
func (w *work) wanted() bool { return w.stop == nil && w.Wanted.Err() == nil }

// next returns a shard that a claim may get, and -1 if there is none: by chance, so that hosts do not meet, and those whose holder
// may be alive last.
func (w *work) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []int
	for _, s := range []standing{free, vanished} {
		for k := range w.parts {
			if w.parts[k].standing == s {
				found = append(found, k)
			}
		}
		if len(found) > 0 {
			return found[rand.IntN(len(found))] //nolint:gosec // not a secret
		}
	}
	return -1
}

// start runs a shard beside the others.
func (w *work) start(ctx context.Context, k int, observe func(runner.Event)) {
	w.mu.Lock()
	p := &w.parts[k]
	trigger := w.trigger
	if p.first != nil {
		trigger, p.first = *p.first, nil
	}
	p.standing = here
	w.mu.Unlock()
	w.running++
	s := Shard{Number: k, Trigger: trigger, Wanted: w.Wanted, Observe: observe}
	earlier := trigger.Tick != w.trigger.Tick
	panics.Go(func() {
		r := w.Run(ctx, s)
		if r.Ending == runner.NotStarted {
			sleep(w.Wanted, runner.OthersFirst)
		}
		w.results <- finished{k, r, earlier}
	})
}

// all returns all shards.
func (w *work) all() []int { return w.which(func(part) bool { return true }) }

// open returns the shards that are not over and do not run here.
func (w *work) open() []int {
	return w.which(func(p part) bool { return p.standing != over && p.standing != here && p.standing != left })
}

func (w *work) which(is func(part) bool) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var numbers []int
	for k := range w.parts {
		if is(w.parts[k]) {
			numbers = append(numbers, k)
		}
	}
	return numbers
}

func (w *work) count(s standing) int {
	return len(w.which(func(p part) bool { return p.standing == s }))
}

// holder returns one of those who run a shard elsewhere.
func (w *work) holder() backends.Holder {
	for _, k := range w.which(func(p part) bool { return p.standing == held }) {
		return w.parts[k].holder
	}
	return backends.Holder{}
}

// cannotAsk gives up, because of the store or because nothing may start any more.
func (w *work) cannotAsk(err error) {
	r := runner.Result{Ending: runner.Unreachable, Err: err}
	refusal, refused := errors.AsType[*backends.Refusal](err)
	switch {
	case refused:
		r = runner.Result{Ending: runner.Refused, Refusal: refusal}
	case w.Wanted.Err() != nil:
		r.Ending = runner.Interrupted
	case backends.IsPermanent(err):
		r.Ending = runner.Permanent
	}
	w.stop = &r
}
