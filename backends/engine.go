package backends

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Engine is the Driver of a Store. Claims, renewals, ends and orders are all carried out in the same way, by attempt:
// read what there is, decide, write if nothing has changed since, else decide again.
type Engine struct {
	Rules Rules // set before the first request

	store   Store
	traits  Traits
	life    context.Context // ends with Close, and all requests and watches with it
	endLife context.CancelFunc
}

var _ Backend = (*Engine)(nil)

// Rules are the decisions that an engine carries out. Tests of the tests replace them with broken ones.
type Rules struct {
	Claim   func(View, Claim) Decision
	Renew   func(View, Grant) Renewal
	Finish  func(View, Grant, Outcome) Ending
	Abandon func(View, Claim) Ending
	Order   func(View, Order) Ordered
}

// NewEngine returns the driver of a store.
func NewEngine(store Store) *Engine {
	e := &Engine{store: store, traits: store.Traits(), Rules: Rules{
		Claim: Decide, Renew: DecideRenew, Finish: DecideFinish, Abandon: DecideAbandon, Order: DecideOrder,
	}}
	e.life, e.endLife = context.WithCancel(context.Background())
	return e
}

// Acquire implements Backend.
func (e *Engine) Acquire(ctx context.Context, c Claim) (Grant, error) {
	q := Request{Op: ToClaim, Job: c.Job, Holder: c.Holder, TTL: c.TTL, Seen: c.Seen}
	var g Grant
	s, err := e.carryOut(ctx, q, func(v View, ttl time.Duration) plan {
		asked := c
		asked.TTL = ttl // as the store grants it: for so long others wait for the holder if it vanishes
		d := e.Rules.Claim(v, asked)
		if d.Grant == nil {
			return plan{write: Write{Record: d.Record}, needed: d.Changed, answer: d.Refusal}
		}
		g = *d.Grant
		label := Label{Holder: c.Holder.ID, Token: g.Token}
		return plan{write: Write{Record: d.Record, Lease: &label, TTL: g.TTL, Beat: true}, needed: true}
	})
	if err != nil {
		return Grant{}, About("claim", c.Job, err)
	}
	g.Claim, g.Private = c, NewLeaseCache(s)
	s.Complete(&g)
	return g, nil
}

// Renew implements Backend. What is known of the lease spares it the read.
func (e *Engine) Renew(ctx context.Context, g Grant) (Signal, error) {
	cache := CacheOf(g)
	q := Request{Op: ToRenew, Job: g.Claim.Job, Holder: g.Claim.Holder, TTL: g.TTL, Known: cache.Last(), Doubted: cache.Doubted()}
	defer cache.Hedge(func() { q.Beside = true })()
	var signal Signal
	now, err := e.carryOut(ctx, q, func(v View, _ time.Duration) plan {
		r := e.Rules.Renew(v, g)
		if r.Lost {
			return plan{answer: ErrLost}
		}
		signal = r.Signal
		label := LabelOf(g)
		return plan{write: Write{Record: r.Record, Lease: &label, TTL: g.TTL, Beat: true}, needed: true}
	})
	if err != nil {
		if !IsAnswer(err) {
			cache.Doubt(q.Known)
		}
		return Signal{}, About("renew", g.Claim.Job, err)
	}
	cache.Saw(q.Known, now)
	return signal, nil
}

// Finish implements Backend. A renewal that comes later begins with a read.
func (e *Engine) Finish(ctx context.Context, g Grant, o Outcome) error {
	cache := CacheOf(g)
	q := Request{Op: ToFinish, Job: g.Claim.Job, Holder: g.Claim.Holder, Known: cache.Last()}
	err := e.end(ctx, q, func(v View) Ending { return e.Rules.Finish(v, g, o) })
	cache.Saw(q.Known, nil)
	return About("finish", q.Job, err)
}

// Abandon implements Backend.
func (e *Engine) Abandon(ctx context.Context, c Claim) error {
	q := Request{Op: ToAbandon, Job: c.Job, Holder: c.Holder}
	return About("abandon", q.Job, e.end(ctx, q, func(v View) Ending { return e.Rules.Abandon(v, c) }))
}

func (e *Engine) end(ctx context.Context, q Request, decide func(View) Ending) error {
	_, err := e.carryOut(ctx, q, func(v View, _ time.Duration) plan {
		d := decide(v)
		if d.Lost {
			return plan{answer: ErrLost}
		}
		return plan{write: Write{Record: d.Record, Release: d.Release}, needed: d.Changed || e.traits.Rewrites}
	})
	return err
}

// Order implements Backend.
func (e *Engine) Order(ctx context.Context, o Order) error {
	q := Request{Op: ToOrder, Job: o.Job, Seen: o.Seen}
	_, err := e.carryOut(ctx, q, func(v View, _ time.Duration) plan {
		d := e.Rules.Order(v, o)
		// A tombstone has a beat of its own: whoever counts the silence of its predecessor begins anew.
		w := Write{Record: d.Record, Beat: d.Record.Beat != v.Record.Beat, Release: d.Release, Still: true}
		return plan{write: w, needed: d.Err == nil && (d.Changed || e.traits.Rewrites), answer: d.Err}
	})
	return About(string(o.Kind), o.Job, err)
}

// Inspect implements Backend.
func (e *Engine) Inspect(ctx context.Context, job string) (Status, error) {
	var status Status
	_, err := e.carryOut(ctx, Request{Op: ToInspect, Job: job}, func(v View, _ time.Duration) plan {
		if v.Lease == nil && v.Record.Job == "" {
			return plan{answer: ErrUnknownJob}
		}
		status = StatusOf(v, job)
		return plan{}
	})
	return status, About("inspect", job, err)
}

// plan is what was decided about a request.
type plan struct {
	write  Write
	needed bool  // the write must be done before the answer is given
	answer error // nil: what was asked for is so
}

// decision decides a request on what the store holds. ttl is that of the lease, as far as it is known.
type decision func(v View, ttl time.Duration) plan

// carryOut carries out a request, and returns what its last step left.
func (e *Engine) carryOut(ctx context.Context, q Request, decide decision) (s Snapshot, err error) {
	ctx, cancel := During(ctx, e.life)
	defer cancel()
	tx := e.store.Begin(ctx, q)
	err = errPanic
	defer func() { tx.End(ctx, err) }() // also after a panic: a daemon outlives it, and with it what the request has locked
	a := newAttempt(q, decide)
	if q.Doubted || q.Op == ToFinish && e.traits.EndsRead {
		a = unknowing(q, decide)
	}
	return a.run(ctx, tx)
}

// errPanic is how a request ends in which something panics. Nobody is told: the panic goes on.
var errPanic = errors.New("a fault of leaderrun itself")

// attempt is a request on its way: read, decide, write, again for as long as others change meanwhile what was decided on. It
// asks what is to be done next and is told what came of it. It does nothing itself, so that a model can let others do
// something in between.
type attempt struct {
	next step

	q         Request
	decide    decision
	s         Snapshot // what was read or known last
	plan      plan     // what was decided on it
	known     bool     // it was not read by this request, but known before
	doubted   bool     // the store has said once that it does not know its lease
	conflicts int

	err error // when it is over
}

// step is what an attempt wants to be done.
type step int

const (
	pauses  step = iota + 1 // then paused
	reads                   // then sees
	extends                 // then extended
	swaps                   // then swapped
	over
)

// newAttempt returns one that begins with what is known already, if anything is.
func newAttempt(q Request, decide decision) *attempt {
	a := unknowing(q, decide)
	if q.Known != nil {
		a.s, a.known = q.Known, true
		a.decides()
	}
	return a
}

// unknowing returns an attempt that begins with a read.
func unknowing(q Request, decide decision) *attempt {
	return &attempt{next: reads, q: q, decide: decide}
}

func (a *attempt) run(ctx context.Context, tx Tx) (Snapshot, error) {
	for a.next != over {
		a.proceed(ctx, tx)
	}
	return a.s, a.err
}

// proceed does what the attempt wants to be done.
func (a *attempt) proceed(ctx context.Context, tx Tx) {
	switch a.next {
	case pauses:
		a.paused(pause(ctx, a.conflicts))
	case reads:
		a.sees(tx.Read(ctx))
	case extends:
		a.extended(tx.Extend(ctx, a.s))
	case swaps:
		a.swapped(tx.Swap(ctx, a.s, a.plan.write))
	case over:
	}
}

func (a *attempt) paused(err error) {
	if a.next = reads; err != nil {
		a.ends(err)
	}
}

func (a *attempt) sees(s Snapshot, err error) {
	if err != nil {
		a.ends(err)
		return
	}
	a.s, a.known = s, false
	a.decides()
}

func (a *attempt) decides() {
	a.plan = decideOn(a.s, a.q, a.decide)
	if a.plan.needed && a.plan.write.Lease != nil {
		a.next = extends
		return
	}
	a.goesOn()
}

// goesOn follows the decision. What was known before only spares a read where something is written: it may be older than the
// last renewal, and by it a lease has run out that has not.
func (a *attempt) goesOn() {
	switch {
	case a.plan.needed:
		a.next = swaps
	case a.known:
		a.next = reads
	default:
		a.ends(a.plan.answer)
	}
}

// extended is told the TTL that the store's own lease has. One that the store does not know is looked for once more: that may
// be the word of a server that is behind.
func (a *attempt) extended(ttl time.Duration, err error) {
	switch {
	case errors.Is(err, ErrNoLease) && !a.doubted:
		a.next, a.doubted = reads, true
	case err != nil:
		a.ends(err)
	case ttl < a.q.TTL:
		a.ends(fmt.Errorf("a lease of %v was asked for, and one of %v was given", a.q.TTL, ttl))
	case ttl > a.q.TTL:
		a.q.TTL = ttl
		a.plan = decideOn(a.s, a.q, a.decide)
		a.goesOn()
	default:
		a.goesOn()
	}
}

// swapped is told whether something was written. Where others are quicker again and again there are many of them: a pause is
// made, after which the last answer is old.
func (a *attempt) swapped(now Snapshot, done bool, err error) {
	a.conflicts++
	switch {
	case err != nil:
		a.ends(err)
	case done:
		a.s = now
		a.ends(a.plan.answer)
	case a.conflicts > 1:
		a.next = pauses
	case now == nil:
		a.next = reads
	default:
		a.sees(now, nil)
	}
}

func (a *attempt) ends(err error) { a.next, a.err = over, err }

// decideOn decides on a state. Where another program has put something, only ends are decided: they touch no other's lease.
func decideOn(s Snapshot, q Request, decide decision) plan {
	v := s.View(q)
	if v.Foreign != nil && q.Op != ToRenew && q.Op != ToFinish && q.Op != ToAbandon {
		return plan{answer: v.Foreign}
	}
	p := decide(v, q.TTL)
	p.write.Record.Form = RecordForm
	return p
}

// The pauses between conflicts.
const (
	firstConflict = 2 * time.Millisecond
	lastConflict  = 100 * time.Millisecond
)

// pause waits before a request is decided anew, longer with each time that it was. It returns why it must not be.
func pause(ctx context.Context, conflicts int) error {
	limit := min(firstConflict<<min(conflicts, 10), lastConflict)
	select {
	case <-time.After(rand.N(limit)): //nolint:gosec // jitter
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Watch implements Backend.
func (e *Engine) Watch(ctx context.Context, job string) (<-chan News, error) {
	return Rewatch(ctx, e.life, func(ctx context.Context, tell func(News)) error { return e.store.Follow(ctx, job, tell) })
}

// Jobs implements Backend.
func (e *Engine) Jobs(ctx context.Context) ([]string, error) {
	ctx, cancel := During(ctx, e.life)
	defer cancel()
	jobs, err := e.store.List(ctx)
	slices.Sort(jobs)
	return slices.Compact(jobs), About("list jobs of", cmp.Or(e.traits.Prefix, e.traits.URL), err)
}

// Examine implements Backend.
func (e *Engine) Examine(ctx context.Context, ttl time.Duration) []Finding {
	ctx, cancel := During(ctx, e.life)
	defer cancel()
	return e.store.Check(ctx, ttl)
}

// Limits implements Backend.
func (e *Engine) Limits() Limits { return e.traits.Limits }

// Close implements Backend. It ends requests that are on their way.
func (e *Engine) Close() error {
	e.endLife()
	return e.store.Close()
}

// Redacted returns the URL without its secrets.
func (e *Engine) Redacted() string { return e.traits.URL }

// String is Redacted.
func (e *Engine) String() string { return e.traits.URL }

// Prefix returns what the names of all keys begin with; "": they have none.
func (e *Engine) Prefix() string { return e.traits.Prefix }
