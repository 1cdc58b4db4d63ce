package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Pauses between tries. The first retry follows at once.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
	minLook    = 100 * time.Millisecond // between two looks at a job that is held, without a notification
	maxJitter  = 500 * time.Millisecond
	// fairTry: no try gets less, however late it is, but the last one before a start deadline. A slow store is not one that
	// is gone.
	fairTry  = time.Second
	farewell = time.Second // how long a wrapper that gives up tries to take its claim back

	nearTick = 2 * time.Second // a tick that is no further ahead is slept to: cron may be early after a clock step
)

// errInterrupted ends an attempt because of a signal or a cancelled context.
var errInterrupted = errors.New("interrupted")

// limits are the instants at which a candidate stops trying. What it must wait out in any case moves the
// first two.
type limits struct {
	wait    Instant // the end of the wait
	backend Instant // without a wait: the end of patience with a store that cannot be reached
	start   Instant // the start deadline of the tick
}

func (a *attempt) limits() *limits {
	now := a.clock.Now()
	l := &limits{wait: never, backend: never, start: never}
	switch {
	case a.req.Wait == Forever:
	case a.req.Wait > 0:
		l.wait = now.Add(a.req.Wait)
	default:
		l.backend = now.Add(a.req.BackendWait)
	}
	if o := a.req.Occasion; o.Tick != 0 && o.StartDeadline > 0 {
		l.start = now.Add(time.Until(time.Unix(o.Tick, 0)) + o.StartDeadline)
		l.backend = min(l.backend, l.start)
	}
	return l
}

// sleepToTick waits for a tick that lies just ahead of the wall clock, which may be stepped meanwhile.
func (a *attempt) sleepToTick(ctx context.Context) (Result, bool) {
	for tick := a.req.Occasion.Tick; tick != 0; {
		ahead := time.Until(time.Unix(tick, 0))
		if ahead <= 0 || ahead > nearTick {
			break
		}
		if result, again := a.sleep(ctx, a.clock.Now().Add(ahead), nil); !again {
			return result, false
		}
	}
	return Result{}, true
}

// acquire claims the job until it is granted, refused for good, or the wait is over. It returns ok where the
// lease is ours.
func (a *attempt) acquire(ctx context.Context) (result Result, ok bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	defer func() {
		if !ok && a.unclear {
			a.abandon(ctx)
		}
	}()
	l := a.limits()
	var wake <-chan backends.News
	for tries := 0; ; {
		err := a.claimOnce(ctx, l)
		refusal, isRefusal := errors.AsType[*backends.Refusal](err)
		_, isPermanent := errors.AsType[*backends.PermanentError](err)
		switch {
		case err == nil:
			return Result{}, true
		case errors.Is(err, errInterrupted):
			return Result{Ending: Interrupted}, false
		case isPermanent:
			return Result{Ending: Permanent, Err: err}, false
		case isRefusal:
			tries, a.failure, a.refusal = 0, nil, refusal
			a.claim.Floor = max(a.claim.Floor, refusal.Token)
			if wake == nil && refusal.Verdict == backends.Held && a.req.Wait > 0 {
				wake = a.watch(ctx)
			}
			if result, again := a.refused(ctx, l, refusal, &wake); !again {
				return result, false
			}
		default:
			tries, a.failure, a.unclear = tries+1, err, true
			a.emit(slog.LevelInfo, EventSilent, fmt.Sprintf("the backend does not answer: %v", err))
			if a.req.Wait > 0 && a.behind != behindSilence { // a standby stands by for the backend, too
				a.behind = behindSilence
				a.report(Event{
					Name: EventStandby, Level: slog.LevelInfo, Reason: ReasonUnreachable,
					Text: "standing by: the backend does not answer",
				})
			}
			if result, again := a.unreachable(ctx, l, tries); !again {
				return result, false
			}
		}
	}
}

// claimOnce makes one claim. Its validity counts from before the request was sent.
func (a *attempt) claimOnce(ctx context.Context, l *limits) error {
	t0 := a.clock.Now()
	claim := a.claim
	if claim.Seen.Token != 0 {
		claim.Seen.For = t0.Sub(a.seenAt)
	}
	limit := min(a.req.Timeline.attempt(), max(earliest(l.wait, l.backend).Sub(t0), fairTry))
	if left := l.start.Sub(t0); left > 0 { // who is late already only asks what became of the tick
		limit = min(limit, max(left, minLook))
	}
	var grant backends.Grant
	err := a.ask(ctx, limit, func(ctx context.Context) (err error) {
		grant, err = a.r.Driver.Acquire(ctx, claim)
		return err
	})
	now := a.clock.Now()
	if refusal, ok := errors.AsType[*backends.Refusal](err); ok && refusal.Seen != a.sign() {
		a.witness(refusal.Seen, now) // another's life counts from after the reply that showed it
	}
	if err != nil {
		a.unclear = a.unclear || errors.Is(err, errInterrupted)
		return err
	}
	plan, err := a.req.Timeline.For(grant.TTL)
	if err != nil {
		a.unclear = true
		return &backends.PermanentError{Kind: backends.Configuration, Err: fmt.Errorf("the backend granted another TTL than asked for: %w", err)}
	}
	if now >= plan.Deadline(t0).Term {
		return fmt.Errorf("the reply took %v", brief(now.Sub(t0)))
	}
	a.grant, a.plan, a.asked = grant, plan, t0
	return nil
}

// sign returns the last sign of life that was seen of another holder.
func (a *attempt) sign() backends.Evidence {
	return backends.Evidence{Token: a.claim.Seen.Token, Beat: a.claim.Seen.Beat}
}

// witness notes a sign of life of another holder that was first seen now.
func (a *attempt) witness(seen backends.Evidence, now Instant) {
	if seen.Token != 0 {
		a.claim.Seen, a.seenAt = seen, now
	}
}

// refused decides what follows a refusal, and waits where waiting helps.
func (a *attempt) refused(ctx context.Context, l *limits, r *backends.Refusal, wake *<-chan backends.News) (Result, bool) {
	now := a.clock.Now()
	switch r.Verdict {
	case backends.Held:
		if a.req.Wait == 0 || a.req.SameTickOnly && r.Tick != a.req.Occasion.Tick {
			return Result{Ending: Refused}, false
		}
		if now >= l.wait {
			return Result{Ending: WaitOver}, false
		}
		if now >= l.start && r.Tick != a.req.Occasion.Tick { // held by another tick's run until too late for ours
			return a.late(r), false
		}
		a.standby(r)
		look := now.Add(max(r.Wait, minLook) + a.jitter(min(a.req.Timeline.TTL/20, maxJitter)))
		if now < l.start {
			look = earliest(look, l.start)
		}
		return a.sleep(ctx, earliest(look, l.wait), wake)
	case backends.Vanished, backends.Quarantined:
		if now >= l.start {
			return a.late(r), false
		}
		a.emit(slog.LevelInfo, EventStandby, fmt.Sprintf("waiting %v: %s", brief(r.Wait), waitText(r)),
			slog.String("verdict", string(r.Verdict)))
		until := now.Add(max(r.Wait, time.Millisecond) + a.jitter(min(a.req.Timeline.TTL/20, maxJitter)))
		result, again := a.sleep(ctx, earliest(until, l.start), wake)
		l.postpone(a.clock.Now().Sub(now))
		return result, again
	case backends.Outdated:
		return Result{Ending: Refused}, a.prove(r)
	}
	return Result{Ending: Refused}, false
}

// prove puts a proof into the claim that the recorded schedule is out of use, and says whether there is one.
func (a *attempt) prove(r *backends.Refusal) bool {
	if a.proved || a.req.Prove == nil {
		return false
	}
	a.proved = true
	unclaimed, ok := a.req.Prove(*r)
	if ok {
		a.claim.Unclaimed = unclaimed
	}
	return ok
}

// postpone moves the ends of patience by a time that passed whatever the options say.
func (l *limits) postpone(d time.Duration) {
	if l.wait != never {
		l.wait = l.wait.Add(d)
	}
	if l.backend != never {
		l.backend = min(l.backend.Add(d), l.start)
	}
}

// late is the end of a candidate whose tick may not start any more.
func (a *attempt) late(r *backends.Refusal) Result {
	a.refusal = &backends.Refusal{Verdict: backends.Late, Tick: a.req.Occasion.Tick, Token: r.Token}
	return Result{Ending: Refused}
}

func waitText(r *backends.Refusal) string {
	if r.Verdict == backends.Quarantined {
		return "the backend may have forgotten who runs the job"
	}
	return "a lease vanished that was not released; its holder may still be alive"
}

// unreachable decides what follows a request without an answer.
func (a *attempt) unreachable(ctx context.Context, l *limits, tries int) (Result, bool) {
	if a.clock.Now() >= earliest(l.wait, l.backend) {
		return Result{Ending: Unreachable, Err: a.failure}, false
	}
	until := earliest(a.clock.Now().Add(a.pause(tries)), l.wait, l.backend)
	return a.sleep(ctx, until, nil)
}

// pause returns the time before the next try after so many failures in a row.
func (a *attempt) pause(failures int) time.Duration {
	if failures <= 1 {
		return 0
	}
	pause := min(firstPause<<min(failures-2, 8), lastPause)
	return pause/2 + a.jitter(pause/2)
}

// jitter returns a random duration up to limit, so that hosts do not act in step.
func (a *attempt) jitter(limit time.Duration) time.Duration {
	if a.r.jitter != nil {
		return a.r.jitter(limit)
	}
	return rand.N(limit + 1)
}

// standby tells once behind whom this wrapper waits.
func (a *attempt) standby(r *backends.Refusal) {
	if a.behind == r.Token {
		return
	}
	a.behind = r.Token
	a.emit(slog.LevelInfo, EventStandby, "standing by behind "+HolderText(r.Holder),
		slog.String("behind", r.Holder.ID), slog.String("behind_host", r.Holder.Host), slog.Int("behind_pid", r.Holder.PID))
}

// HolderText names a holder for people.
func HolderText(h backends.Holder) string {
	if h.Host == "" {
		return "another holder"
	}
	return fmt.Sprintf("%s, process %d", h.Host, h.PID)
}

// watch opens a notification of the job's release. It never blocks; without one the timer has to do.
func (a *attempt) watch(ctx context.Context) <-chan backends.News {
	w, ok := a.r.Driver.(backends.Watcher)
	if !ok {
		return nil
	}
	wake := make(chan backends.News, 1)
	a.beside(func() {
		defer close(wake)
		news, err := w.Watch(ctx, a.req.Job)
		if err != nil {
			return
		}
		for n := range news {
			backends.Tell(wake, n)
		}
	})
	return wake
}

// sleep waits until an instant, a reason to look, or an ending signal. again is false after the latter.
func (a *attempt) sleep(ctx context.Context, until Instant, wake *<-chan backends.News) (result Result, again bool) {
	var news <-chan backends.News
	if wake != nil {
		news = *wake
	}
	for a.clock.Now() < until {
		a.timer.Set(until)
		select {
		case <-a.timer.C():
		case n, open := <-news:
			if !open {
				*wake, news = nil, nil // broken: the next wait opens another, the timer bridges the gap
				continue
			}
			if n.Seen != a.sign() { // one that comes late and is older only makes us wait longer
				a.witness(n.Seen, a.clock.Now())
			}
			if n.Look {
				return Result{}, true
			}
		case s := <-a.req.Signals:
			if a.ends(s) {
				return Result{Ending: Interrupted}, false
			}
		case <-ctx.Done():
			return Result{Ending: Interrupted}, false
		case p := <-a.panics:
			panic(p)
		}
	}
	return Result{}, true
}

// ask makes one request that may take no longer than limit, and leaves it alone when a signal comes first.
func (a *attempt) ask(ctx context.Context, limit time.Duration, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := a.answerOf(ctx, request)
	for {
		select {
		case err := <-answer:
			return err
		case p := <-a.panics:
			panic(p)
		case s := <-a.req.Signals:
			if !a.ends(s) {
				continue
			}
			cancel()
			_ = a.wait(answer)
			return errInterrupted
		}
	}
}

// errDeaf is what a request came to whose driver did not return when it had to.
var errDeaf = errors.New("the request did not end with its time")

// answerOf makes a request, and answers when the driver returns. That is when the context ends; a driver that does not is
// left behind a second later, so that no library of a store holds up a run: whatever it still does, the outcome is unknown.
func (a *attempt) answerOf(ctx context.Context, request func(context.Context) error) <-chan error {
	answer := make(chan error, 2) // the first one counts
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(farewell, func() { answer <- fmt.Errorf("%w: %w", errDeaf, context.Cause(ctx)) })
	})
	a.beside(func() {
		err := request(ctx)
		stop()
		answer <- err
	})
	return answer
}

func (a *attempt) wait(answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case p := <-a.panics:
		panic(p)
	}
}

// ends notes a signal that ends a run, and says whether it is one.
func (a *attempt) ends(s os.Signal) bool {
	sig, _ := s.(syscall.Signal)
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		a.signal = sig
		return true
	}
	return false
}

// abandon takes back a claim that may still arrive at the store. It is tried for a second: should it not
// arrive either, the lease that nobody renews runs out.
func (a *attempt) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(a.req.Timeline.attempt(), farewell))
	defer cancel()
	_ = a.wait(a.answerOf(ctx, func(ctx context.Context) error { return a.r.Driver.Abandon(ctx, a.claim) }))
}
