package shards

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	lookers  = 16          // how many shards are looked at at a time
	watchers = 32          // how many a host watches at most: some stores have a connection or a thread for each
	pause    = time.Second // between two requests to a store that does not answer

	mostTries = 3 // claims of one shard without a wait
)

// standing is what a host knows of a shard, for the tick or key that it works through.
type standing int

const (
	unknown  standing = iota // to be looked at
	free                     // a claim may be granted now
	vanished                 // its holder may be alive, without a lease: a claim waits for the proof of its death
	held                     // somebody has the lease
	here                     // it runs on this host
	left                     // it is not to be run here again, whatever others do with it
	over                     // it has an end, and will not be run again
)

// part is what is known of one shard.
type part struct {
	standing
	state   backends.State // over: how it ended; else what the record says of the tick or key, "" for nothing
	holder  backends.Holder
	refusal *backends.Refusal // of the last claim that was refused because of another holder
	result  *runner.Result    // of a run here that did not end well; nil: there was none
	tries   int               // claims that were refused because of another holder
	again   time.Time         // no claim is made before, whatever a look shows
	ran     bool              // a command of ours was started
	first   *backends.Trigger // an earlier tick that has to be run before; nil: none has
}

// occurrence returns what a record says of a tick or key. Of a tick before the recorded one it is what the last runs tell.
func occurrence(r *backends.Record, t backends.Trigger) (o backends.Occurrence, known bool) {
	if t.Once != "" {
		for _, o := range r.Once {
			if o.Key == t.Once {
				return o, true
			}
		}
		return o, false
	}
	switch {
	case r.Tick.Tick == t.Tick:
		return r.Tick, true
	case r.Tick.Tick < t.Tick:
		return o, false
	}
	o = backends.Occurrence{Tick: t.Tick, State: backends.Missed, Policy: backends.Skip, Parts: t.Parts}
	for _, run := range r.Runs {
		if run.Tick == t.Tick && run.State != backends.Open {
			o.State, o.Claimant, o.Attempt = run.State, run.Holder, run.Attempt
			break
		}
	}
	return o, true
}

// mayBeGone says whether what the record of shard 0 had to tell of a tick or key may have been forgotten or lost.
func mayBeGone(r *backends.Record, t backends.Trigger) bool {
	_, known := occurrence(r, t)
	return !known && (t.Once != "" || r.Tick.Tick == 0 || hasRun(r, t))
}

// hasRun says whether a shard was run for a tick or key, as far back as its runs are kept.
func hasRun(r *backends.Record, t backends.Trigger) bool {
	return slices.ContainsFunc(r.Runs, func(run backends.Run) bool { return run.Tick == t.Tick && run.Key == t.Once })
}

// wasLost says whether the store has lost that shard 0 was begun for a tick or key, as it was before any other. Where an operator has
// had it forgotten, the runs are left, or the token alone.
func wasLost(s backends.Status, t backends.Trigger) bool {
	r := &s.Record
	_, known := occurrence(r, t)
	forgotten := r.Token != 0 && len(r.Runs) == 0 || hasRun(r, t)
	return !known && !forgotten && s.Lease == nil
}

// askOthers fills in what the record of shard 0 does not tell, where those of other shards do: into how many shards the tick or key is
// divided, or an earlier tick. lost: shard 0 is not to be run for that.
func (w *work) askOthers(s *backends.Status) (lost bool, err error) {
	t, r := w.trigger, &s.Record
	var mu sync.Mutex
	var found backends.Occurrence
	more := true // all are looked at if shard 0 has nothing
	for from, to := 1, max(t.Parts, 1+lookers); more && found.Parts == 0 && to <= Most; from, to = to, to+lookers {
		more = false
		err := Together(to-from, func(i int) error {
			s, err := w.inspect(w.Wanted, from+i)
			o := s.Record.Tick
			if t.Once != "" {
				o, _ = occurrence(&s.Record, t)
			}
			mu.Lock()
			defer mu.Unlock()
			more = more || len(r.Runs) == 0 && s.Record.Token != 0
			if o.Parts > 0 && o.Parts <= Most && (found.Parts == 0 || o.Tick > found.Tick) {
				found = o
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	if found.Parts == 0 {
		return false, nil
	}
	again, err := w.inspect(w.Wanted, 0) // who began it meanwhile has written shard 0 before the others
	if *s = again; err != nil || !mayBeGone(r, t) {
		return false, err
	}
	earlier := found.Tick < t.Tick
	if earlier && len(r.Runs) > 0 { // only this tick was forgotten
		return false, nil
	}
	rerun := found.Policy == backends.Rerun && t.OnLost == backends.Rerun
	lost = earlier && s.Lease == nil || !rerun && wasLost(*s, t)
	found.State = backends.Claimed // nobody knows how it ended
	if t.Once == "" {
		r.Tick = found
	} else {
		r.Once = append(r.Once, found)
	}
	return lost, nil
}

// judge says how a shard stands for the tick or key, which was begun.
func (w *work) judge(k int, s backends.Status) part {
	if k == 0 && w.trigger.OnLost != backends.Rerun && wasLost(s, w.trigger) {
		return part{standing: over, state: backends.Lost}
	}
	return judge(s, w.trigger)
}

// judge says how a shard stands, by its record and lease.
func judge(s backends.Status, t backends.Trigger) part {
	r := &s.Record
	o, known := occurrence(r, t)
	known = known && o.Parts == t.Parts // else this shard is other work, and a claim would be refused (backends.Divided)
	p := part{standing: free, holder: o.Claimant}
	if known {
		p.state = o.State
	}
	again := o.State == backends.Open || o.MayRunAgain(t.OnLost)
	passed := t.Tick != 0 && r.Tick.Tick > t.Tick
	switch {
	case known && (o.State == backends.Done || o.State == backends.Failed || o.State == backends.Missed):
		p.standing = over
	case known && o.State == backends.Claimed && s.Lease != nil && s.Lease.Holder == o.Claimant.ID:
		p.standing = held
	case known && (passed || o.State != backends.Claimed && !again):
		p.standing = over
		if o.State == backends.Claimed {
			p.state = backends.Lost
		}
	case s.Lease != nil:
		p.standing, p.holder = held, r.Holder
	case s.Wait > 0:
		p.standing = vanished
	}
	return p
}

// inspect reads what the store keeps about a shard, with patience while it does not answer. A shard that nobody ever ran is no
// error. An error is a store that cannot be asked, the refusal of a nested run, or the end of ctx.
func (w *work) inspect(ctx context.Context, k int) (backends.Status, error) {
	var end time.Time // of the patience
	for {
		limited, cancel := context.WithTimeout(ctx, w.TTL/6)
		s, err := w.Store.Inspect(limited, slots.Name(w.Job, k))
		cancel()
		if end.IsZero() {
			end = time.Now().Add(w.patience())
		}
		switch holder := backends.HolderOf(&s.Record, s.Lease); {
		case err == nil && w.Inside.Has(holder):
			return s, &backends.Refusal{Verdict: backends.Nested, Holder: holder, Token: s.Record.Token, Tick: s.Record.Tick.Tick}
		case err == nil:
			return s, nil
		case errors.Is(err, backends.ErrUnknownJob):
			return backends.Status{}, nil
		case ctx.Err() != nil:
			return s, context.Cause(ctx)
		case backends.IsAnswer(err) || !time.Now().Before(end):
			return s, err
		}
		sleep(ctx, pause)
	}
}

// patience is for how long a store that does not answer is asked again.
func (w *work) patience() time.Duration {
	if w.Wait > 0 {
		return max(w.Wait, w.BackendWait)
	}
	return w.BackendWait
}

// look looks at these shards, some at a time, and notes how they stand. Those that run here are left out.
func (w *work) look(ctx context.Context, numbers []int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan int)
	var wait sync.WaitGroup
	var failed error
	var once sync.Once
	for range min(lookers, len(numbers)) {
		wait.Add(1)
		panics.Go(func() {
			defer wait.Done()
			for k := range queue {
				s, err := w.inspect(ctx, k)
				if err != nil {
					once.Do(func() { failed = err })
					cancel(err)
					continue
				}
				w.note(k, w.judge(k, s))
			}
		})
	}
	for _, k := range numbers {
		select {
		case queue <- k:
		case <-ctx.Done():
		}
	}
	close(queue)
	wait.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// lookBack finds out, once, what has become of those that were run here and asked to end.
func (w *work) lookBack(ctx context.Context) {
	ran := w.which(func(p part) bool { return p.standing == unknown && p.ran })
	if len(ran) == 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.TTL/6)
	defer cancel()
	_ = w.look(ctx, ran) // what cannot be seen stays open
}

// note keeps how a shard stands, unless it runs here or is not this host's any more. What is over stays so.
func (w *work) note(k int, p part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := &w.parts[k]
	switch old.standing {
	case here, over, left:
		return
	case unknown, free, vanished, held:
	}
	if p.standing == free && (old.tries >= mostTries && w.Wait == 0 || time.Now().Before(old.again)) {
		p.standing = held // somebody is quicker, again and again; or it is kept for somebody
	}
	p.tries, p.again, p.refusal = old.tries, old.again, old.refusal
	p.result, p.first, p.ran = old.result, old.first, old.ran
	*old = p
}

// follow watches these shards, and no others any more: of many, some that are taken by chance. One whose watch breaks is looked at
// by the clock.
func (w *work) follow(ctx context.Context, numbers []int) {
	for k, end := range w.watches {
		if !slices.Contains(numbers, k) {
			end()
			delete(w.watches, k)
		}
	}
	for _, i := range rand.Perm(len(numbers)) { //nolint:gosec // not a secret
		k := numbers[i]
		if len(w.watches) >= watchers {
			return
		}
		if w.watches[k] != nil {
			continue
		}
		one, end := context.WithCancel(ctx)
		w.watches[k] = end
		news, err := w.Store.Watch(one, slots.Name(w.Job, k))
		if err != nil {
			continue
		}
		panics.Go(func() {
			for n := range news {
				if !n.Look {
					continue
				}
				select {
				case w.news <- k:
				case <-one.Done():
				}
			}
		})
	}
}

// sleep waits, and returns early when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
