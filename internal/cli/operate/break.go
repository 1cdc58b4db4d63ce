package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// Break is `leaderrun break`.
func Break() *cli.Command {
	return &cli.Command{
		Name: "break", Args: "JOB", Brief: "end the run of a job, or clear its tick, key or schedule",
		About: `Asks whoever runs JOB to stop, and waits until the whole run is dead. The holder hears of it within a third
of its TTL, sends SIGTERM (SIGKILL after its --kill-after), and ends with code 75. A run that was for a
tick or a key leaves it stopped: it does not run again, unless --on-lost rerun says so. If nobody runs
JOB, a line says so and the exit code is 0. It is 76 if the run goes on when --wait is over, 1 for an
unknown job, 69 if the backend does not answer.

--force does not ask: it takes the lease away. The holder kills its run as soon as it notices, and nobody
else is granted the job for the time that the lease had left: by then the run is dead by its own clock.
With file: the run is on this machine, and is killed.

--holder-is-dead frees the job at once. You answer for it that no process of the run is left, on whatever
host it was: if one is, two runs overlap, and only the token tells them apart.

Of a job with slots or shards, all runs are meant, and hosts start no more shards; JOB#3 is one of them.
The tick or key that is forgotten is that of all shards.

The --forget options leave a run alone, unless they come with --force or --holder-is-dead. Tokens go on
growing whatever is forgotten.`,
		Examples: []cli.ExampleLine{
			{Does: "end the run and wait until it is dead", Line: "leaderrun break --reason 'wrong input' nightly-report"},
			{Does: "only ask", Line: "leaderrun break --wait 0 nightly-report"},
			{Does: "the host of the run was taken out of the rack", Line: "leaderrun break --holder-is-dead nightly-report"},
			{Does: "let the last tick run again", Line: "leaderrun break --forget-tick nightly-report"},
		},
		Options: append(breakOptions(), cli.CommonOptions()...),
		Run:     runBreak,
	}
}

// parseReason reads a reason. The record of the job keeps those of its last runs.
func parseReason(text string) (string, error) {
	const most = 1000
	if len(text) > most {
		return "", fmt.Errorf("it is longer than %d bytes", most)
	}
	return text, nil
}

// breakOptions are orders but for the first: what environment and files say is for many calls, and none of them may
// kill a run that it was not meant for.
func breakOptions() []cli.Option {
	return []cli.Option{
		{
			Name: "wait", Short: "w", Value: "D|forever", Def: "forever", Check: cli.By(launch.ParseWait), Words: []string{"forever"}, Example: "10m",
			Help: "how long to wait for the end of the run; 0: only ask",
		},
		{Name: "force", Bare: true, Help: "take the lease away without asking; with file: kill the run"},
		{Name: "holder-is-dead", Bare: true, Help: "free the job at once: no process of the run is left"},
		{Name: "forget-tick", Bare: true, Help: "forget the last tick: it was wrong, or is to run again"},
		{Name: "forget-once", Value: "KEY", Bare: true, Check: cli.By(launch.ParseOnce), Example: "v42", Help: "forget this --once key: it is to run again"},
		{Name: "forget-schedule", Bare: true, Help: "accept the schedule of whichever host comes next"},
		{Name: "reason", Value: "TEXT", Bare: true, Check: cli.By(parseReason), Example: `"wrong input"`, Help: "why, for the history and for whoever runs the job"},
	}
}

// breaking is one call of break.
type breaking struct {
	*cli.Call
	store  backends.Backend
	job    string
	reason string
	wait   time.Duration
	kind   backends.OrderKind // what happens to the run; "": nothing
	forget []backends.Order
	run    *watchedRun      // that is to be waited for; nil: none
	again  bool             // it is divided for a tick or key: who stands by may begin another shard
	over   map[string]int64 // the tokens of runs that were waited for, by shard: some stores cannot say twice that a dead holder is dead
	open   int              // how many of its shards are left that somebody may begin
	all    bool             // the run is one of a divided job, of which all are to end
	end    <-chan time.Time // when the wait is over; nil: never
}

func runBreak(c *cli.Call) (cli.ExitStatus, error) {
	b, err := planBreak(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	return c.OnStore(func(ctx context.Context, store backends.Backend) error {
		b.store = store
		names, err := expand(ctx, b.store, b.job)
		switch {
		case err != nil:
			return err
		case len(b.forget) > 0:
			return b.forgetAll(ctx, names)
		}
		return b.endAll(ctx, names)
	})
}

// endAll gives its orders about a job, or about each slot or shard of one, and waits then until all of their runs are over. What was
// asked to stop is looked at again where the job is divided: a host that stood by may have begun another shard meanwhile.
func (b *breaking) endAll(ctx context.Context, names []string) error {
	b.end, b.over = patienceFor(b.wait), map[string]int64{}
	nobody := true
	var since time.Time // when the first look was over, or the last at which somebody was seen to work
	for {
		open := b.open
		ended, err := b.endThese(ctx, names)
		works := ended > 0 || open > 0 && b.open != open
		nobody = nobody && !works
		if works || since.IsZero() {
			since = time.Now()
		}
		between := time.Duration(0)
		switch once := b.kind != backends.Stop || b.wait == 0; {
		case err != nil:
			return err
		case ended > 0 && b.again && !once:
		case ended == 0 && b.open > 0 && !once && time.Since(since) < betweenShards:
			between = betweenShards / 10
		default:
			if nobody {
				b.Console.Warn("nobody runs "+b.job, "")
			}
			return nil
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return ctx.Err()
		case <-b.end:
			if nobody {
				b.Console.Warn("nobody runs "+b.job, "")
				return nil
			}
			return &cli.Fault{Code: cli.CodeNotRun, What: b.job, Why: fmt.Sprintf("its shards are still worked on after %v", b.wait)}
		}
		if names, err = expand(ctx, b.store, b.job); err != nil { // a shard is in the store as soon as it is begun
			return err
		}
	}
}

// betweenShards is for how long nobody must be seen to run a shard of a tick or key that is not over: between two shards, a host that
// works has none.
const betweenShards = time.Second

// patienceFor returns a channel that tells when the wait is over; nil: never.
func patienceFor(wait time.Duration) <-chan time.Time {
	if wait == runner.Forever {
		return nil
	}
	return time.After(wait)
}

// oneAtMost refuses to take the holders of several slots for dead on one word.
func (b *breaking) oneAtMost(ctx context.Context, names []string) error {
	seen, err := inspectJobs(ctx, b.store, names)
	if err != nil {
		return err
	}
	var held []string
	for i, name := range names {
		if s := seen[i]; !b.isIdle(s) {
			held = append(held, name+" on "+s.Record.Holder.Host)
		}
	}
	if len(held) < 2 {
		return nil
	}
	return cli.Usage("--holder-is-dead", "it is about one holder, and "+b.job+" has several: "+strings.Join(held, ", "),
		"name the slot or shard of the host that is dead: leaderrun break --holder-is-dead '"+b.job+"#0'")
}

// endThese gives its orders, waits until the runs are over, and returns how many there were. It looks at some at a time, and gives the
// order about each at once: a short run would be over when all are seen.
func (b *breaking) endThese(ctx context.Context, names []string) (ended int, err error) {
	if len(names) > 1 && b.kind == backends.ForceRelease {
		if err := b.oneAtMost(ctx, names); err != nil {
			return 0, err
		}
	}
	runs := make([]*breaking, len(names)) // nil: there is nothing to end
	seen := make([]backends.Status, len(names))
	err = shards.Together(len(names), func(i int) (err error) {
		one := *b
		one.job = names[i]
		s, err := inspectJob(ctx, b.store, one.job)
		if err != nil {
			return err
		}
		seen[i] = s
		isOver := s.Lease == nil && b.over[one.job] == lastToken(s) || b.kind != backends.ForceRelease && watchRun(s).over(s, time.Now())
		if b.isIdle(s) || isOver {
			return nil
		}
		one.mean(s)
		one.all = one.job != b.job && isPart(s.Record)
		one.run, err = one.endRun(ctx, s)
		runs[i] = &one
		return err
	})
	if err != nil {
		return 0, err
	}
	parts := divided{}
	for i, name := range names {
		parts.add(name, seen[i])
		b.again = b.again || runs[i] != nil && runs[i].all && isOfTickOrKey(seen[i])
	}
	all := parts.of(b.job).shards
	b.open = 0
	if t, known := lastDivided(all); known {
		b.open = shards.Sum(t, all).Open
	}
	for _, one := range runs {
		if one == nil {
			continue
		}
		ended++
		if one.run != nil {
			if err := one.await(ctx, one.run, b.end); err != nil {
				return 0, err
			}
			b.over[one.job] = one.run.token
		}
	}
	return ended, nil
}

// planBreak reads arguments and options. Nothing is touched yet.
func planBreak(c *cli.Call) (*breaking, error) {
	job, err := oneJob(c)
	if err != nil {
		return nil, err
	}
	s := c.Settings
	b := &breaking{Call: c, job: job, reason: cli.Read(s, "reason", parseReason, "")}
	b.wait = cli.Read(s, "wait", launch.ParseWait, runner.Forever)
	force, dead := s.On("force"), s.On("holder-is-dead")
	forget := func(kind backends.OrderKind, key string) {
		b.forget = append(b.forget, backends.Order{Job: job, Kind: kind, Reason: b.reason, Key: key})
	}
	if s.On("forget-tick") {
		forget(backends.ForgetTick, "")
	}
	if key := cli.Read(s, "forget-once", launch.ParseOnce, ""); key != "" {
		forget(backends.ForgetKey, key)
	}
	if s.On("forget-schedule") {
		forget(backends.ForgetSchedule, "")
	}
	switch {
	case s.Err != nil:
		return nil, s.Err
	case force && dead:
		return nil, cli.Usage("--force, --holder-is-dead", "give one of them", "--force is the safe one: it waits until the run is dead by its own clock")
	case force:
		b.kind = backends.Revoke
	case dead:
		b.kind = backends.ForceRelease
	case len(b.forget) == 0:
		b.kind = backends.Stop
	}
	return b, nil
}

// mean takes what --forget-tick is about from a look at the job: the tick that is recorded now, and no later one.
func (b *breaking) mean(s backends.Status) {
	for i := range b.forget {
		if b.forget[i].Kind == backends.ForgetTick {
			b.forget[i].Tick = s.Record.LastTick().Tick
		}
	}
}

// isOfTickOrKey says whether the last run was for a tick or key.
func isOfTickOrKey(s backends.Status) bool {
	runs := s.Record.Runs
	return len(runs) > 0 && isForTickOrKey(runs[0])
}

func isForTickOrKey(run backends.Run) bool { return run.Tick != 0 || run.Key != "" }

// isIdle says whether there is nothing to end: nobody runs, nor is the job kept for a host that is said to be dead.
func (b *breaking) isIdle(s backends.Status) bool {
	kept := b.kind == backends.ForceRelease && s.Record.ReservedFor(s.Now) > 0
	return s.Lease == nil && s.Record.Free() && !kept
}

// endRun ends the run that was seen to go on, and returns it if its end is to be waited for.
func (b *breaking) endRun(ctx context.Context, s backends.Status) (wait *watchedRun, err error) {
	run := watchRun(s)
	if run.over(s, time.Now()) && b.kind != backends.ForceRelease || b.isIdle(s) {
		b.Console.Warn("nobody runs "+b.job, "")
		return nil, nil
	}
	if b.store.Limits().LocalHolders != nil && s.Lease != nil {
		switch b.kind {
		case backends.Revoke:
			return nil, b.killHere(ctx, s, run)
		case backends.ForceRelease:
			return nil, aliveHere(b.job, s)
		}
	}
	if err := b.interfere(ctx, s, run); err != nil {
		return nil, err
	}
	switch {
	case b.kind == backends.ForceRelease:
		b.Console.Warn(b.job+" is free on your word that "+runner.HolderText(s.Record.Holder)+" is dead", "if it lives, two runs overlap: only the token tells them apart")
		return nil, nil
	case b.wait == 0:
		remark(b.Call, b.job, "asked "+runner.HolderText(s.Record.Holder))
		return nil, nil
	}
	return run, nil
}

// interfere gives the order about the run. That the run is over, or its lease gone already, is for the wait to see.
func (b *breaking) interfere(ctx context.Context, s backends.Status, run *watchedRun) error {
	err := b.orderRecorded(ctx, s, backends.Order{Job: b.job, Kind: b.kind, Reason: b.reason, Token: run.token, All: b.all && b.kind == backends.Stop})
	if r, ok := errors.AsType[*backends.Refusal](err); ok {
		if r.Verdict != backends.Vanished || b.kind == backends.ForceRelease {
			return refused(b.job, r)
		}
		remark(b.Call, b.job, "the lease is gone already: waiting until its holder is dead for certain")
		return nil
	}
	if errors.Is(err, backends.ErrOver) {
		return nil
	}
	return err
}

// orderRecorded gives the order about the run that was seen. Where its record was lost, its lease is not taken away before
// the holder has written the record anew, which it does with its next renewal: what it runs is not to run again.
func (b *breaking) orderRecorded(ctx context.Context, s backends.Status, o backends.Order) error {
	ttl := cmp.Or(time.Duration(s.Record.TTL)*time.Millisecond, runner.DefaultTTL)
	for began := time.Now(); ; {
		err := backends.ErrLags // as the store would say
		if lags := lastToken(s) > s.Record.Token; !lags || o.Kind != backends.Revoke {
			b.mean(s)
			err = orderJob(ctx, b.store, o)
		}
		if !errors.Is(err, backends.ErrLags) {
			return err
		}
		if time.Since(began) >= min(ttl, b.wait) {
			return &cli.Fault{
				Code: cli.CodeUnavailable, What: b.job, Why: "its record was lost, and its holder has not written it anew yet", Err: err,
				Hint: "give the order again, or answer for the holder's death and its tick: --holder-is-dead",
			}
		}
		if err := pause(ctx, min(lookAgain, ttl/3)); err != nil {
			return err
		}
		if s, err = inspectJob(ctx, b.store, b.job); err != nil {
			return err
		}
	}
}

// await waits until the run is over.
func (b *breaking) await(ctx context.Context, run *watchedRun, end <-chan time.Time) error {
	const first, last = 50 * time.Millisecond, time.Second
	for pause := first; ; pause = min(2*pause, last) {
		s, err := inspectJob(ctx, b.store, b.job)
		if err != nil {
			return err
		}
		if run.over(s, time.Now()) {
			b.tellEnd(s, run)
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return b.waitOver(s)
		}
	}
}

// waitOver is the fault of a run that did not end in time.
func (b *breaking) waitOver(s backends.Status) error {
	f := &cli.Fault{Code: cli.CodeNotRun, What: b.job}
	if s.Lease == nil {
		f.Why = fmt.Sprintf("its holder may still live for %s", cli.Millis(s.Wait.Milliseconds()))
		return f
	}
	f.Why = fmt.Sprintf("still runs on %s after %v", runner.HolderText(s.Record.Holder), b.wait)
	f.Hint = "--force takes the lease away from a holder that does not stop"
	return f
}

// tellEnd says how the run ended, where that is news.
func (b *breaking) tellEnd(s backends.Status, run *watchedRun) {
	for _, r := range s.Record.Runs {
		if r.Token == run.token && r.Ended != 0 {
			remark(b.Call, b.job, fmt.Sprintf("the run of %s is over: %s", b.job, r.State))
			return
		}
	}
	if b.kind == backends.Revoke {
		remark(b.Call, b.job, "the run of "+b.job+" is over; it did not report its end")
		return
	}
	b.Console.Warn("the run of "+b.job+" never reported its end: its lease is gone, and its time is over", "")
}

// watchedRun follows a run to its end, by what a store shows of it.
type watchedRun struct {
	token  int64
	silent backends.LastSeen // what is known of a holder whose lease is gone
	freeAt time.Time         // when that holder cannot live any more
}

// watchRun follows the run that goes on now.
func watchRun(s backends.Status) *watchedRun { return &watchedRun{token: lastToken(s)} }

func lastToken(s backends.Status) int64 {
	if s.Lease != nil {
		return max(s.Lease.Token, s.Record.Token)
	}
	return s.Record.Token
}

// over says whether the run has ended for certain: it was released, somebody was granted since, or its lease is gone
// and the time that its holder may live has passed. Some stores can only say how long that is for whoever looks for
// the first time, so it counts from the first look that showed it. now is read after the reply.
func (e *watchedRun) over(s backends.Status, now time.Time) bool {
	r := &s.Record
	switch {
	case s.Lease == nil && r.Free():
		return true
	case s.Lease != nil:
		e.silent = backends.LastSeen{}
		return s.Lease.Token > e.token
	}
	at := now.Add(s.Wait)
	if seen := (backends.LastSeen{Token: r.Token, Beat: r.Beat}); seen != e.silent {
		e.silent, e.freeAt = seen, at
	}
	if at.Before(e.freeAt) {
		e.freeAt = at
	}
	return !now.Before(e.freeAt)
}
