package backends

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Order is what an operator wants of a job.
type Order struct {
	Job    string
	Kind   OrderKind
	By     Holder // who orders; the ID is new for every order, and the same when it is repeated
	Reason string // for the history; may be empty
	Token  int64  // Stop, Revoke, ForceRelease: the run that is meant
	All    bool   // Stop: the holder is to start no other part of the job either
	Tick   int64  // ForgetTick: the tick that is meant, in Unix seconds
	Key    string // ForgetKey: which
	// Seen is what the operator has watched of a holder that vanished, as in a Claim: a Refusal with the verdict
	// Vanished shows it and says how long to watch.
	Seen LastSeen
}

// OrderKind is what is ordered.
type OrderKind string

// The orders.
const (
	Stop           OrderKind = "stop"            // ask the holder to end its run
	Revoke         OrderKind = "revoke"          // take the lease away; nobody gets it for the time it has left
	ForceRelease   OrderKind = "force-release"   // the holder is dead, the operator answers for it: free at once
	ForgetTick     OrderKind = "forget-tick"     // the recorded tick was wrong, or is to run again
	ForgetKey      OrderKind = "forget-key"      // the once-key is to run again
	ForgetSchedule OrderKind = "forget-schedule" // whichever schedule comes next is the job's
	ForgetJob      OrderKind = "forget-job"      // all but the token of a job that is free
)

// ErrOver says that an order has nothing to change: the run that it means is over, or the record has no such
// tick, key or schedule.
var ErrOver = errors.New("there is nothing to do it to")

// ErrLags says that a Revoke was not carried out, because only the holder knows which tick or key it runs. Without
// its lease it could not write that into the record any more, and the tick would run again.
var ErrLags = errors.New("the job's record was lost; its holder's next renewal writes it anew")

// OrderDecision is what is decided on an order.
type OrderDecision struct {
	Record  Record
	Changed bool  // Record differs from the one in the view
	Release bool  // the lease is to be removed, without any delay of the store's own
	Err     error // what Order returns; the store stays as it is
}

// DecideOrder answers an order. An order that takes a lease away leaves the record as if the lease had vanished by itself: the record is
// not free, so nobody is granted the job as long as the holder may live.
func DecideOrder(v View, o Order) OrderDecision {
	if o.By.ID == "" { // a repetition could not be recognised
		return OrderDecision{Record: v.Record, Err: errors.New("an order needs an id")}
	}
	if v.Lease == nil && v.Record.Job == "" {
		return OrderDecision{Record: v.Record, Err: ErrUnknownJob}
	}
	if slices.Contains(v.Record.Orders, o.By.ID) { // it is repeated, because its reply was lost
		return OrderDecision{Record: v.Record}
	}
	d := decider{Record: v.Record.clone(), v: v, c: Claim{Seen: o.Seen}, now: v.Now.UnixMilli()}
	release, err := d.apply(o)
	if err != nil {
		return OrderDecision{Record: v.Record, Err: err}
	}
	d.Record.Job = o.Job
	if o.Kind != Stop { // which says by its token what it is for
		d.Record.Orders = keep(slices.Insert(d.Record.Orders, 0, o.By.ID), KeptOrders)
	}
	return OrderDecision{Record: d.Record, Changed: true, Release: release}
}

// apply changes the record as ordered, and says whether the lease is to be removed.
func (d *decider) apply(o Order) (release bool, err error) {
	r := &d.Record
	switch o.Kind {
	case Stop, Revoke, ForceRelease:
		return d.interfere(o)
	case ForgetTick:
		return false, d.forgetTick(o.Tick)
	case ForgetKey:
		return false, d.forgetKey(o.Key)
	case ForgetSchedule:
		if r.Schedule.Fingerprint == "" && len(r.Former) == 0 {
			return false, ErrOver
		}
		r.Schedule, r.Former = Schedule{}, nil
		return false, nil
	case ForgetJob:
		return false, d.forgetJob()
	}
	return false, fmt.Errorf("unknown order %q", o.Kind)
}

// interfere acts on the run of a token.
func (d *decider) interfere(o Order) (release bool, err error) {
	r, l := &d.Record, d.v.Lease
	if l == nil && r.Free() && r.Token == o.Token && o.Kind == ForceRelease && r.ReservedFor(d.v.Now) > 0 {
		r.Reserved = nil
		return false, nil
	}
	lags := l != nil && l.Token > r.Token // the record was lost, and the lease tells of the run
	switch {
	case l != nil && l.Token != o.Token, !lags && r.Token != o.Token, l == nil && r.Free():
		return false, ErrOver
	case l == nil && o.Kind != ForceRelease:
		return false, cmp.Or(d.mayLive(), ErrOver)
	case lags && o.Kind == Revoke:
		return false, ErrLags
	}
	switch o.Kind {
	case Stop:
		// A record that was lost stays so: its holder's next renewal, which carries the request back, writes it
		// anew, and knows which tick or key it runs.
		r.Break = &BreakRequest{Token: o.Token, By: o.By, Reason: o.Reason, At: d.now, All: o.All}
		return false, nil
	case Revoke:
		d.close(Stopped, o)
		d.revoke(o)
	case ForceRelease:
		if lags {
			d.mend()
		}
		d.close(Lost, o)
		r.Released, r.Ended = r.Token, d.now
	}
	return l != nil, nil
}

// mend writes what the lease tells of a dead holder into a record that was lost or rolled back, before the lease is
// removed. Which tick or key it ran nobody can say any more: the operator answers for that too.
func (d *decider) mend() {
	r, l := &d.Record, d.v.Lease
	r.Token, r.Holder = l.Token, Holder{ID: l.Holder}
	r.note(Run{Token: l.Token, Holder: r.Holder, State: Claimed})
}

// mayLive returns a refusal as long as a holder whose lease vanished may live, then nil.
func (d *decider) mayLive() error {
	if wait := d.holderMayLive(); wait > 0 {
		return d.unsafe(Vanished, wait)
	}
	return nil
}

func (d *decider) unsafe(verdict Verdict, wait time.Duration) *Refusal {
	r := &d.Record
	return &Refusal{Verdict: verdict, Holder: r.Holder, Token: r.Token, Wait: wait, Seen: d.lastSeen(), Tick: r.Tick.Tick}
}

// close writes down how the run of the record's token ends, as far as the operator knows. It gets no end: a holder
// that lives and reports one must not be answered as if it had done so before.
func (d *decider) close(s State, o Order) {
	r := &d.Record
	r.Break, r.Reserved = nil, nil
	if run := r.run(r.Token); run != nil {
		run.State, run.Note = s, breakNote(o.By, o.Reason)
	}
	if r.Tick.State == Claimed && r.Tick.Claimant.ID == r.Holder.ID {
		r.Tick.State = s
	}
	for i := range r.Once {
		if r.Once[i].State == Claimed && r.Once[i].Claimant.ID == r.Holder.ID {
			r.Once[i].State = s
		}
	}
}

// revoke puts the operator in the holder's place, with a higher token, for as long as the holder may believe that
// it leads.
func (d *decider) revoke(o Order) {
	r := &d.Record
	left := min(ceilMillis(d.v.Lease.Left), r.TTL)
	r.Holder = o.By
	r.Token = max(r.Token+1, d.now)
	r.Granted, r.Until = d.now, max(d.now+left, min(r.Until, d.now+r.TTL))
	r.Beat++
}

// ceilMillis rounds up: a life must not be counted too short.
func ceilMillis(t time.Duration) int64 {
	return max((t + time.Millisecond - 1).Milliseconds(), 0)
}

// breakNote is what the history says of a run that an operator ended.
func breakNote(by Holder, reason string) string {
	note := fmt.Sprintf("broken by %s on %s", by.User, by.Host)
	if reason != "" {
		note += ": " + reason
	}
	return note
}

// forgetTick leaves the record as if the tick had not been claimed. The tick before it is the last one then, so that nothing older runs
// again. The history knows that tick if it was started or missed not long ago. If it knows none, all that is older counts as missed, up
// to the second before the tick. But a tick ahead of now was recorded by a wrong clock, and ticks before it may have yet to come: then
// there is no last tick.
func (d *decider) forgetTick(tick int64) error {
	r := &d.Record
	if r.Tick.Tick == 0 || r.Tick.Tick != tick {
		return ErrOver
	}
	if err := d.going(r.Tick); err != nil {
		return err
	}
	var before Occurrence
	for _, run := range r.Runs {
		if run.Tick > before.Tick && run.Tick < tick && run.State != Open {
			before = Occurrence{Tick: run.Tick, State: run.State, Claimant: run.Holder, Policy: Skip, Attempt: run.Attempt, MaxAttempts: 1, Parts: r.Tick.Parts}
		}
	}
	if before.Tick == 0 && tick*1000 <= d.now {
		before = Occurrence{Tick: tick - 1, State: Missed, Policy: Skip, Parts: r.Tick.Parts}
	}
	r.Tick, r.Passed = before, 0
	return nil
}

func (d *decider) forgetKey(key string) error {
	r := &d.Record
	i := slices.IndexFunc(r.Once, func(x Occurrence) bool { return x.Key == key })
	if i < 0 {
		return ErrOver
	}
	if err := d.going(r.Once[i]); err != nil {
		return err
	}
	r.Once = slices.Delete(r.Once, i, i+1)
	return nil
}

// going refuses to forget what is being run now, or may be.
func (d *decider) going(x Occurrence) error {
	r, l := &d.Record, d.v.Lease
	switch {
	case x.State != Claimed:
	case l != nil && x.Claimant.ID == l.Holder:
		return &Refusal{Verdict: Held, Holder: x.Claimant, Token: l.Token, Wait: l.Left, Tick: x.Tick, Seen: d.lastSeen()}
	case l == nil && x.Claimant.ID == r.Holder.ID:
		return d.mayLive()
	}
	return nil
}

// forgetJob forgets all but the token, where a claim would be granted. What tells a late arrival of an old claim, and
// a beat that somebody has seen, stays too.
func (d *decider) forgetJob() error {
	if l := d.v.Lease; l != nil {
		return d.unsafe(Held, l.Left)
	}
	if d.v.Quarantine > 0 {
		return d.unsafe(Quarantined, d.v.Quarantine)
	}
	if err := d.mayLive(); err != nil {
		return err
	}
	r := d.Record
	var ended []string // a late claim of theirs is told by the history, which goes
	for _, run := range r.Runs {
		if run.Ended != 0 && run.Holder.ID != "" && !slices.Contains(r.Refused, run.Holder.ID) {
			ended = append(ended, run.Holder.ID)
		}
	}
	d.Record = Record{
		Token: r.Token, TTL: r.TTL, Beat: r.Beat, Until: r.Until, Released: r.Token, Ended: d.now, Orders: r.Orders,
		Refused: keep(slices.Concat(keep(ended, KeptAbandoned/2), r.Refused), KeptAbandoned),
	}
	return nil
}
