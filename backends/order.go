package backends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Operator lets people step in.
type Operator interface {
	// Order carries out one order on a job, in one atomic step. It returns nil when what was ordered is so,
	// ErrUnknownJob when the store keeps nothing about the job, ErrOver when there is nothing (left) to do it
	// to, a *Refusal when it is not safe, a *PermanentError, or else "outcome unknown": orders may be repeated.
	Order(ctx context.Context, o Order) error
}

// Order is what an operator wants of a job.
type Order struct {
	Job    string
	Kind   OrderKind
	By     Holder // who orders; the ID is new for every order
	Reason string // for the history; may be empty
	Token  int64  // Stop, Entomb, DeclareDead: the run that is meant
	Key    string // ForgetKey: which
}

// OrderKind is what is ordered.
type OrderKind string

// The orders.
const (
	Stop           OrderKind = "stop"            // ask the holder to end its run
	Entomb         OrderKind = "entomb"          // take the lease away; nobody gets it for the time it has left
	DeclareDead    OrderKind = "declare-dead"    // the holder is dead, the operator answers for it: free at once
	ForgetTick     OrderKind = "forget-tick"     // the recorded tick was wrong, or is to run again
	ForgetKey      OrderKind = "forget-key"      // the once-key is to run again
	ForgetSchedule OrderKind = "forget-schedule" // whichever schedule comes next is the job's
	ForgetJob      OrderKind = "forget-job"      // all but the token of a job that is free
)

// ErrOver says that there is nothing that an order could change: the run that is meant is over, or no such
// tick, key or schedule is recorded.
var ErrOver = errors.New("there is nothing to do it to")

// Ordered is the answer to an order.
type Ordered struct {
	Record  Record
	Changed bool  // Record differs from the one in the view
	Release bool  // the lease is to be removed, without any delay of the store's own
	Err     error // what Order returns; the store stays as it is unless Changed
}

// DecideOrder answers an order. What takes a lease away leaves the same trace as one that vanished by itself:
// without the release mark of the last token nobody is granted before the holder's life is over.
func DecideOrder(v View, o Order) Ordered {
	d := decider{Record: v.Record.clone(), v: v, now: v.Now.UnixMilli()}
	if v.Lease == nil && d.Record.Job == "" {
		return Ordered{Record: v.Record, Err: ErrUnknownJob}
	}
	release, err := d.obey(o)
	if err != nil {
		return Ordered{Record: v.Record, Err: err}
	}
	d.Record.Job = o.Job
	return Ordered{Record: d.Record, Changed: true, Release: release}
}

// obey changes the record as ordered, and says whether the lease is to be removed.
func (d *decider) obey(o Order) (release bool, err error) {
	r := &d.Record
	switch o.Kind {
	case Stop, Entomb, DeclareDead:
		return d.interfere(o)
	case ForgetTick:
		return false, d.forgetTick()
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
	r := &d.Record
	if l := d.v.Lease; l != nil && l.Token > r.Token { // the record was lost; its holder's next renewal mends it
		r.Token, r.Holder = l.Token, Holder{ID: l.Holder}
		r.note(Run{Token: l.Token, Holder: r.Holder, State: Claimed})
	}
	if r.Token != o.Token || r.Free() && d.v.Lease == nil {
		return false, ErrOver
	}
	if d.v.Lease == nil && o.Kind != DeclareDead {
		return false, &Refusal{Verdict: Vanished, Holder: r.Holder, Token: r.Token, Wait: d.holderMayLive(), Tick: r.Tick.Tick}
	}
	switch o.Kind {
	case Stop:
		r.Break = &BreakRequest{Token: o.Token, By: o.By, Reason: o.Reason, At: d.now}
		return false, nil
	case Entomb:
		d.close(Stopped, o)
		d.entomb(o)
	case DeclareDead:
		d.close(Lost, o)
		r.Released, r.Ended = r.Token, d.now
	}
	return d.v.Lease != nil, nil
}

// close writes down how the run of the record's token ends, as far as the operator knows: it has no end yet, so
// that the holder, should it live, is told that the lease is lost.
func (d *decider) close(s State, o Order) {
	r := &d.Record
	r.Break = nil
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

// entomb puts the operator in the holder's place, with a higher token, for as long as the holder may believe that
// it leads.
func (d *decider) entomb(o Order) {
	r := &d.Record
	left := min(max(d.v.Lease.Left.Milliseconds(), 0), r.TTL)
	r.Holder = o.By
	r.Token = max(r.Token+1, d.now)
	r.Granted, r.Until = d.now, d.now+left
	r.Beat++
}

// breakNote is what the history says of a run that an operator ended.
func breakNote(by Holder, reason string) string {
	note := fmt.Sprintf("broken by %s on %s", by.User, by.Host)
	if reason != "" {
		note += ": " + reason
	}
	return note
}

// forgetTick takes the recorded tick back: the job is where it was after the latest one before it that the history
// knows, so that nothing older runs again.
func (d *decider) forgetTick() error {
	r := &d.Record
	if r.Tick.Tick == 0 {
		return ErrOver
	}
	if err := d.going(r.Tick); err != nil {
		return err
	}
	var before Occurrence
	for _, run := range r.Runs {
		if run.Tick > before.Tick && run.Tick < r.Tick.Tick {
			before = Occurrence{Tick: run.Tick, State: run.State, Claimant: run.Holder, Policy: Skip, Attempt: run.Attempt, MaxAttempts: 1}
		}
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

// going refuses to forget what is being run now.
func (d *decider) going(x Occurrence) error {
	l := d.v.Lease
	if l == nil || x.State != Claimed || x.Claimant.ID != l.Holder {
		return nil
	}
	return &Refusal{Verdict: Held, Holder: x.Claimant, Token: l.Token, Wait: l.Left, Tick: x.Tick}
}

// forgetJob forgets all but the token, where a claim would be granted. What tells a late arrival of an old claim,
// and a beat that somebody has seen, stays too.
func (d *decider) forgetJob() error {
	r := &d.Record
	refuse := func(verdict Verdict, wait time.Duration) error {
		return &Refusal{Verdict: verdict, Holder: r.Holder, Token: r.Token, Wait: wait, Tick: r.Tick.Tick}
	}
	if d.v.Lease != nil {
		return refuse(Held, d.v.Lease.Left)
	}
	if d.v.Quarantine > 0 {
		return refuse(Quarantined, d.v.Quarantine)
	}
	if wait := d.holderMayLive(); wait > 0 {
		return refuse(Vanished, wait)
	}
	d.Record = Record{
		Token: r.Token, TTL: r.TTL, Beat: r.Beat, Until: r.Until, Released: r.Token, Ended: d.now, Refused: r.Refused,
	}
	return nil
}
