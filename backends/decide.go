package backends

import (
	"reflect"
	"slices"
	"time"
)

// Proof is how a store proves that a vanished holder cannot be running any more.
type Proof int

// The proofs. A lease that is gone need not have been released: an operator, an eviction or a
// rolled-back replica may have removed it while its holder lives.
const (
	ByUntil   Proof = iota + 1 // by the server's clock: the record says until when the last renewal was good (Redis, PostgreSQL)
	ByBeat                     // by silence: a candidate has seen no new beat for a TTL on its own clock (etcd, Consul, ZooKeeper, Kubernetes)
	ByRelease                  // by the lease itself: the store frees it only when the holder is gone (flock)
)

// View is what a store holds about a job. The store writes the decision only if this has not changed since.
type View struct {
	Record     Record
	Lease      *Lease        // the valid lease; nil: nobody has one
	Now        time.Time     // by the server's clock, or by ours if the server shows none
	Proof      Proof         // how this store proves the death of a vanished holder
	Quarantine time.Duration // for how long the store must grant nothing, see Mark
	Floor      int64         // the highest token that was granted, if the store knows it from elsewhere than the record
	Foreign    error         // the lease is another program's: claims and orders fail with this error
	Notes      []string      // for people: what the store cannot promise here
}

// ClaimDecision is what is decided on a claim: either Grant or Refusal is set. With a Grant, the store writes a lease for
// the claim's holder with the grant's token, which lasts for the claim's TTL from now.
type ClaimDecision struct {
	Record  Record // the record from now on
	Changed bool   // Record differs from the one in the view
	Grant   *Grant
	Refusal *Refusal
}

// Decide answers a claim. It is the only function that decides who may run a job. docs/guarantees.md has its rules. TestEveryOrder of
// package runner finds a counterexample where a rule is left out on which one run at a time rests; docs/design/adr/0013 says which other rules
// it does not try.
func Decide(v View, c Claim) ClaimDecision {
	d := decider{Record: v.Record.clone(), v: v, c: c, now: v.Now.UnixMilli()}
	if v.Lease != nil && v.Lease.Holder == c.Holder.ID {
		return d.again()
	}
	if holder := HolderOf(&v.Record, v.Lease); c.Inside.Has(holder) {
		return d.refuse(Refusal{Verdict: Nested, Holder: holder})
	}
	if c.Tick != 0 && aheadOf(c.Tick, d.now) {
		return d.refuse(Refusal{Verdict: Future})
	}
	if v.Lease != nil {
		return d.held()
	}
	if d.hasEnded() {
		return d.refuse(Refusal{Verdict: Abandoned})
	}
	if v.Quarantine > 0 {
		return d.refuse(Refusal{Verdict: Quarantined, Wait: v.Quarantine})
	}
	if wait := d.holderMayLive(); wait > 0 {
		return d.refuse(Refusal{Verdict: Vanished, Holder: d.Record.Holder, Wait: wait, Seen: d.lastSeen()})
	}
	if wait := d.reserved(); wait > 0 {
		d.pass()
		return d.refuse(Refusal{Verdict: Reserved, Holder: d.Record.Holder, Wait: wait})
	}
	return d.byTrigger()
}

// decider makes one decision. Its methods change Record, a copy of the view's.
type decider struct {
	Record Record
	v      View
	c      Claim
	now    int64 // ms
	lost   []Occurrence
	notes  []string
}

func aheadOf(tick, now int64) bool { return tick*1000 > now+MaxTickAhead.Milliseconds() }

func (d *decider) refuse(r Refusal) ClaimDecision {
	r.Token = d.Record.Token
	if r.Tick == 0 {
		r.Tick = d.Record.Tick.Tick
	}
	return ClaimDecision{Record: d.Record, Changed: !reflect.DeepEqual(d.Record, d.v.Record), Refusal: &r}
}

func (d *decider) lastSeen() LastSeen {
	return LastSeen{Token: d.Record.Token, Beat: d.Record.Beat}
}

// again answers a claim of a holder that has the lease already, because it did not get the reply to its first claim. It gets the
// same grant. This step also renews the lease, so the lease may count from the claim that is answered now.
func (d *decider) again() ClaimDecision {
	r := &d.Record
	restore(r, d.c, d.v.Lease.Token, d.c.Tick, 1, d.now)
	extend(r, d.c.TTL, d.now)
	g := Grant{Claim: d.c, Token: r.Token, TTL: d.c.TTL, Tick: d.c.Tick, Attempt: 1}
	if run := r.run(r.Token); run != nil {
		g.Tick, g.Attempt = run.Tick, run.Attempt
	}
	return ClaimDecision{Record: *r, Changed: true, Grant: &g}
}

// held refuses a claim because somebody else has the lease, and notes that the claimed tick passes meanwhile.
func (d *decider) held() ClaimDecision {
	d.pass()
	return d.refuse(Refusal{Verdict: Held, Holder: HolderOf(&d.Record, d.v.Lease), Wait: d.v.Lease.Left, Seen: d.lastSeen()})
}

// pass notes that the claimed tick passes unstarted, because another run or a reservation is in the way.
func (d *decider) pass() {
	r := &d.Record
	if d.c.Tick > max(r.Tick.Tick, r.Passed) {
		r.Job, r.Passed = d.c.Job, d.c.Tick
	}
}

// hasEnded says whether the holder has taken this claim back, or its run is over. Then the claim was delayed on its way,
// and nobody waits for the answer any more.
func (d *decider) hasEnded() bool {
	holder := d.c.Holder.ID
	return slices.Contains(d.Record.Refused, holder) ||
		slices.ContainsFunc(d.Record.Runs, func(run Run) bool { return run.Holder.ID == holder && run.Ended != 0 })
}

// holderMayLive returns for how long the holder of the last token may still be alive although its lease is gone. While it may,
// nobody is granted the job: this is why two runs do not overlap when a lease was deleted (docs/design/architecture.md).
func (d *decider) holderMayLive() time.Duration {
	r := &d.Record
	if r.Free() {
		return 0
	}
	switch d.v.Proof {
	case ByUntil:
		r.Until = min(r.Until, d.now+r.TTL) // if it was later, the server's clock went back
		return time.Duration(r.Until-d.now) * time.Millisecond
	case ByBeat:
		left := time.Duration(r.TTL) * time.Millisecond
		if d.c.Seen.Token == r.Token && d.c.Seen.Beat == r.Beat {
			left -= d.c.Seen.For
		}
		return left
	}
	return 0
}

// byTrigger decides a claim for a job that nobody runs and nobody has to be waited for.
func (d *decider) byTrigger() ClaimDecision {
	switch {
	case d.c.Tick != 0:
		return d.byTick()
	case d.c.Once != "":
		return d.byKey()
	}
	return d.grant(0, 1)
}

// byKey decides a claim for a once-key. Keys have no order, so each is looked for by its name.
func (d *decider) byKey() ClaimDecision {
	r := &d.Record
	i := slices.IndexFunc(r.Once, func(o Occurrence) bool { return o.Key == d.c.Once })
	if i < 0 {
		r.Once = keep(slices.Insert(r.Once, 0, d.claimed(1)), KeptKeys)
		return d.grant(0, 1)
	}
	o := r.Once[i]
	if o.Parts != d.c.Parts {
		return d.divided(o)
	}
	attempt, ok := d.start(o)
	if !ok {
		return d.ended(&r.Once[i])
	}
	r.Once = slices.Insert(slices.Delete(r.Once, i, i+1), 0, d.claimed(attempt))
	return d.grant(0, attempt)
}

// byTick decides a claim for a tick. Ticks only go forward, so the record keeps only the last one.
func (d *decider) byTick() ClaimDecision {
	r := &d.Record
	last := r.Tick
	if aheadOf(last.Tick, d.now) {
		return d.refuse(Refusal{Verdict: FutureRecorded, Holder: last.Claimant})
	}
	switch {
	case d.c.Tick < last.Tick:
		return d.earlier()
	case d.c.Tick == last.Tick && d.c.Parts != last.Parts:
		return d.divided(last)
	case d.c.Tick == last.Tick:
		attempt, ok := d.start(last)
		if !ok {
			return d.ended(&r.Tick)
		}
		if d.tooLate(d.c.Tick) {
			return d.late()
		}
		r.Tick = d.claimed(attempt)
		return d.grant(d.c.Tick, attempt)
	}
	if refusal := d.adoptSchedule(); refusal != nil {
		return d.refuse(*refusal)
	}
	if attempt, ok := d.start(last); ok && unfinished(last.State) && !d.tooLate(last.Tick) {
		if d.c.Parts != last.Parts {
			return d.divided(last)
		}
		tick := last.Tick
		r.Tick = d.claimed(attempt)
		r.Tick.Tick = tick
		return d.grant(tick, attempt) // the unfinished tick first; the holder claims the later one afterwards
	}
	d.supersede()
	if d.tooLate(d.c.Tick) {
		return d.late()
	}
	d.adopt()
	r.Tick = d.claimed(1)
	return d.grant(d.c.Tick, 1)
}

func unfinished(s State) bool { return s == Claimed || s == Lost || s == Stopped }

// start says whether a recorded tick or key may start (again), and which attempt at it that would be.
func (d *decider) start(o Occurrence) (attempt int, ok bool) {
	switch {
	case o.State == Open:
		return o.Attempt + 1, true
	case o.State == Claimed && o.Claimant.ID == d.c.Holder.ID:
		return o.Attempt, true // our own claim: we did not get the reply, and the lease has run out since
	}
	return o.Attempt + 1, o.MayRunAgain(d.c.OnLost)
}

// MayRunAgain says whether a tick or key that was started, and has come to no outcome, is started again for a claim with that
// policy once nobody runs it any more.
func (o Occurrence) MayRunAgain(policy Policy) bool {
	return unfinished(o.State) && o.Policy == Rerun && policy == Rerun && o.Attempt < o.MaxAttempts
}

// divided refuses a claim for one part of a tick or key that was begun with another number of parts: part 1 of 2 and part 1 of 3
// are not the same work.
func (d *decider) divided(o Occurrence) ClaimDecision {
	return d.refuse(Refusal{Verdict: Divided, Holder: o.Claimant, Tick: o.Tick, Parts: o.Parts})
}

// ended refuses a tick or key that must not start again. If nothing says yet how it ended, its holder vanished: then it is lost.
func (d *decider) ended(o *Occurrence) ClaimDecision {
	first := o.State == Claimed
	if first {
		o.State = Lost
		d.loseRun()
	}
	return d.refuse(Refusal{Verdict: Verdict(o.State), Holder: o.Claimant, Tick: o.Tick, First: first})
}

// earlier refuses a tick before the recorded one. If it is among the recent runs, the refusal says how it ended.
func (d *decider) earlier() ClaimDecision {
	for _, run := range d.Record.Runs {
		if run.Tick == d.c.Tick && run.State != Claimed && run.State != Open {
			return d.refuse(Refusal{Verdict: Verdict(run.State), Holder: run.Holder, Tick: run.Tick})
		}
	}
	return d.refuse(Refusal{Verdict: IsEarlier})
}

func (d *decider) tooLate(tick int64) bool {
	return d.c.StartDeadline > 0 && d.now-tick*1000 > d.c.StartDeadline.Milliseconds()
}

// late refuses the claimed tick because its start deadline is over. If nobody has started it, the record says from now on that it
// was missed.
func (d *decider) late() ClaimDecision {
	r := &d.Record
	first := d.c.Tick > r.Tick.Tick || r.Tick.State == Open
	if first {
		d.adopt()
		r.Job, r.Tick = d.c.Job, d.claimed(0)
		r.Tick.State = Missed
		r.note(Run{Holder: d.c.Holder, Tick: d.c.Tick, State: Missed})
	}
	return d.refuse(Refusal{Verdict: Late, Tick: d.c.Tick, First: first})
}

// adoptSchedule refuses a claim whose schedule was superseded, unless the claim proves that nobody uses the recorded schedule any
// more: one of its instants passed unclaimed, although the job was free at that instant and has been since.
func (d *decider) adoptSchedule() *Refusal {
	r, mine := &d.Record, d.c.Schedule.Fingerprint
	recorded := r.Schedule.Fingerprint
	if mine == "" || recorded == "" || mine == recorded || !d.isFormer(mine) {
		return nil
	}
	held := r.Ended
	if !r.Free() {
		held = max(held, r.Until)
	}
	if r.Reserved != nil { // until then claims were refused, so nobody could claim an instant
		held = max(held, r.Reserved.Until)
	}
	u := d.c.Unclaimed
	instant := u.Instant * 1000
	if u.Fingerprint == recorded && u.Instant > r.Tick.Tick && instant > held &&
		instant+unclaimedGrace.Milliseconds() <= d.now {
		d.notes = append(d.notes, "an older schedule takes over: nobody uses the recorded one any more ("+r.Schedule.Text+")")
		return nil
	}
	return &Refusal{
		Verdict: Outdated, Holder: r.Schedule.By, Text: r.Schedule.Text,
		At: time.UnixMilli(r.Schedule.At), Lease: time.UnixMilli(held),
	}
}

func (d *decider) isFormer(fingerprint string) bool {
	return slices.ContainsFunc(d.Record.Former, func(s Schedule) bool { return s.Fingerprint == fingerprint })
}

// adopt records the claim's schedule as the one in use.
func (d *decider) adopt() {
	r, mine := &d.Record, d.c.Schedule
	if mine.Fingerprint == "" || mine.Fingerprint == r.Schedule.Fingerprint {
		return
	}
	r.Former = slices.DeleteFunc(r.Former, func(s Schedule) bool { return s.Fingerprint == mine.Fingerprint })
	if r.Schedule.Fingerprint != "" {
		r.Former = keep(slices.Insert(r.Former, 0, r.Schedule), KeptSchedules)
	}
	r.Schedule = Schedule{Fingerprint: mine.Fingerprint, Text: mine.Text, By: d.c.Holder, At: d.now}
}

// supersede closes the recorded tick because a later one follows. If it was started and nobody recorded its end, it is lost. A tick
// that passed because a run was in the way is missed.
func (d *decider) supersede() {
	r := &d.Record
	if r.Tick.State == Claimed {
		o := r.Tick
		o.State = Lost
		d.lost = append(d.lost, o)
		d.loseRun()
	}
	if r.Passed > r.Tick.Tick && r.Passed < d.c.Tick {
		d.lost = append(d.lost, Occurrence{Tick: r.Passed, State: Missed})
		r.note(Run{Tick: r.Passed, State: Missed})
	}
	if r.Passed <= d.c.Tick {
		r.Passed = 0
	}
}

// loseRun marks the last run as lost if nobody recorded its end.
func (d *decider) loseRun() {
	r := &d.Record
	if run := r.run(r.Token); run != nil && run.State == Claimed {
		run.State = Lost
	}
}

// claimed returns the claimed tick or key as the record keeps it after the grant.
func (d *decider) claimed(attempt int) Occurrence { return d.c.occurrence(d.c.Tick, attempt) }

// grant answers yes, for the given tick (0: none).
func (d *decider) grant(tick int64, attempt int) ClaimDecision {
	r := &d.Record
	d.loseRun()
	r.Job, r.Holder, r.Parts = d.c.Job, d.c.Holder, d.c.Parts
	r.Token = max(r.Token+1, d.now, d.c.Floor+1, d.v.Floor+1) // never beyond an int64: see MaxToken and decideOn
	r.Granted, r.Break = d.now, nil
	extend(r, d.c.TTL, d.now)
	reserve(r, d.c, d.now)
	r.note(Run{
		Token: r.Token, Holder: d.c.Holder, Tick: tick, Key: d.c.Once,
		Attempt: attempt, Started: d.now, State: Claimed,
	})
	return ClaimDecision{Record: *r, Changed: true, Grant: &Grant{
		Claim: d.c, Token: r.Token, TTL: d.c.TTL, Tick: tick, Attempt: attempt, Lost: d.lost, Notes: d.notes,
	}}
}
