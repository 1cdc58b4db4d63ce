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

// Engine is the Driver of a Store. It carries out claims, renewals, ends and orders all in the same way (see transaction): it reads
// what the store holds, decides, writes if nothing has changed since, and otherwise decides again.
type Engine struct {
	Rules Rules // set before the first request

	urls    *urlSource // nil: the URL that the store was opened with is all there is
	store   Store
	traits  Traits
	life    context.Context // Close ends it, and with it all requests and watches
	endLife context.CancelFunc
}

var _ Backend = (*Engine)(nil)

// Rules are the functions with which an engine decides. Tests replace them with broken ones, to see that other tests notice.
type Rules struct {
	Claim   func(View, Claim) ClaimDecision
	Renew   func(View, Grant) RenewDecision
	Finish  func(View, Grant, Outcome) EndDecision
	Abandon func(View, Claim) EndDecision
	Order   func(View, Order) OrderDecision
}

// NewEngine returns the driver of a store.
func NewEngine(store Store) *Engine {
	e := &Engine{store: store, traits: store.Traits(), Rules: Rules{
		Claim: Decide, Renew: DecideRenew, Finish: DecideFinish, Abandon: DecideAbandon, Order: DecideOrder,
	}}
	e.life, e.endLife = context.WithCancel(context.Background())
	return e
}

// OpenEngine returns the engine of a store that was opened, or why it was not.
func OpenEngine[S Store](store S, err error) (*Engine, error) {
	if err != nil {
		return nil, err
	}
	return NewEngine(store), nil
}

// Acquire implements Backend.
func (e *Engine) Acquire(ctx context.Context, c Claim) (Grant, error) {
	q := Request{Op: ToClaim, Job: c.Job, Holder: c.Holder, TTL: c.TTL, Seen: c.Seen}
	var g Grant
	s, err := e.carryOut(ctx, q, func(v View, ttl time.Duration) plan {
		asked := c
		asked.TTL = ttl // the TTL that the store grants: others wait for so long if the holder vanishes
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

// Renew implements Backend. It begins without a read, because the last answer has told what the store holds.
func (e *Engine) Renew(ctx context.Context, g Grant) (RenewAnswer, error) {
	cache := CacheOf(g)
	q := Request{Op: ToRenew, Job: g.Claim.Job, Holder: g.Claim.Holder, TTL: g.TTL, Known: cache.Last(), Doubted: cache.Doubted()}
	defer cache.Hedge(func() { q.IsHedge = true })()
	var answer RenewAnswer
	now, err := e.carryOut(ctx, q, func(v View, _ time.Duration) plan {
		r := e.Rules.Renew(v, g)
		if r.Lost {
			return plan{answer: ErrLost}
		}
		answer = r.Answer
		label := LabelOf(g)
		return plan{write: Write{Record: r.Record, Lease: &label, TTL: g.TTL, Beat: true}, needed: true}
	})
	if err != nil {
		if !IsAnswer(err) {
			cache.Doubt(q.Known)
		}
		return RenewAnswer{}, About("renew", g.Claim.Job, err)
	}
	cache.Saw(q.Known, now)
	return answer, nil
}

// Finish implements Backend. A renewal after it begins with a read.
func (e *Engine) Finish(ctx context.Context, g Grant, o Outcome) error {
	cache := CacheOf(g)
	q := Request{Op: ToFinish, Job: g.Claim.Job, Holder: g.Claim.Holder, Known: cache.Last()}
	var asked *BreakRequest
	err := e.end(ctx, q, func(v View) EndDecision {
		asked = v.Record.Break
		return e.Rules.Finish(v, g, o)
	})
	cache.Saw(q.Known, nil)
	if err == nil && asked != nil && asked.Token == g.Token {
		cache.askedAtEnd(asked)
	}
	return About("finish", q.Job, err)
}

// Abandon implements Backend.
func (e *Engine) Abandon(ctx context.Context, c Claim) error {
	q := Request{Op: ToAbandon, Job: c.Job, Holder: c.Holder}
	return About("abandon", q.Job, e.end(ctx, q, func(v View) EndDecision { return e.Rules.Abandon(v, c) }))
}

func (e *Engine) end(ctx context.Context, q Request, decide func(View) EndDecision) error {
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
		// A Revoke writes a new beat: whoever counts the holder's silence must start again.
		w := Write{Record: d.Record, Beat: d.Record.Beat != v.Record.Beat, Release: d.Release, CompareBeat: true}
		return plan{write: w, needed: d.Err == nil && (d.Changed || e.traits.Rewrites), answer: d.Err}
	})
	return About(string(o.Kind), o.Job, err)
}

// Inspect implements Backend.
func (e *Engine) Inspect(ctx context.Context, job string) (Status, error) {
	return e.inspect(ctx, Request{Op: ToInspect, Job: job})
}

// Look implements Backend.
func (e *Engine) Look(ctx context.Context, job string) (Status, error) {
	return e.inspect(ctx, Request{Op: ToInspect, Job: job, Brief: true})
}

func (e *Engine) inspect(ctx context.Context, q Request) (Status, error) {
	var status Status
	_, err := e.carryOut(ctx, q, func(v View, _ time.Duration) plan {
		if v.Lease == nil && v.Record.Job == "" {
			return plan{answer: ErrUnknownJob}
		}
		status = StatusOf(v, q.Job)
		return plan{}
	})
	return status, About("inspect", q.Job, err)
}

// plan is what the engine has decided about a request.
type plan struct {
	write  Write
	needed bool  // the write must succeed before the answer is given
	answer error // nil: the request is carried out
}

// rule decides on a request. v is what the store holds, and ttl the TTL of the lease, as far as the engine knows it.
type rule func(v View, ttl time.Duration) plan

// carryOut carries out a request, and returns what it has left in the store.
func (e *Engine) carryOut(ctx context.Context, q Request, decide rule) (s Snapshot, err error) {
	ctx, cancel := During(ctx, e.life)
	defer cancel()
	err = e.rekeying(ctx, func() (err error) {
		s, err = e.carryOutOnce(ctx, q, decide)
		return err
	})
	return s, err
}

func (e *Engine) carryOutOnce(ctx context.Context, q Request, decide rule) (s Snapshot, err error) {
	tx := e.store.Begin(ctx, q)
	err = errPanic
	defer func() { tx.End(ctx, err) }() // also after a panic: a daemon survives it, and so would the locks of the request
	t := newTransaction(q, decide)
	if !q.Doubted && !(q.Op == ToFinish && e.traits.EndsRead) {
		t.beginWithKnown()
	}
	err = t.run(ctx, tx)
	return t.s, err
}

// errPanic is what Tx.End gets if something panics during a request. Nobody else sees it, because the panic goes on.
var errPanic = errors.New("a fault of leaderrun itself")

// transaction carries out one request: it reads, decides and writes, and does so again as long as others change meanwhile what it has
// decided on. The store's side of it is a Tx. It is pure: next says which call on the Tx comes next, and a method takes the result.
// So a model can let others act between two calls.
type transaction struct {
	next call

	q         Request
	rule      rule
	s         Snapshot // what was read last, or known
	plan      plan     // what was decided on s
	known     bool     // s was not read by this request: it was known before
	doubted   bool     // the store has said once that it does not know its own lease
	conflicts int

	err error // the answer, once there is no next call
}

// call is what a transaction wants next.
type call int

const (
	noCall     call = iota // the request is answered
	callPause              // afterPause takes the result
	callRead               // afterRead takes it
	callExtend             // afterExtend takes it
	callSwap               // afterSwap takes it
)

// newTransaction returns a transaction that begins with a read.
func newTransaction(q Request, decide rule) *transaction {
	return &transaction{next: callRead, q: q, rule: decide}
}

// beginWithKnown lets a transaction begin with what is known already, if anything is.
func (t *transaction) beginWithKnown() {
	if t.q.Known != nil {
		t.s, t.known = t.q.Known, true
		t.decide()
	}
}

func (t *transaction) run(ctx context.Context, tx Tx) error {
	for t.next != noCall {
		t.makeCall(ctx, tx)
	}
	return t.err
}

// makeCall makes the next call, and takes the result.
func (t *transaction) makeCall(ctx context.Context, tx Tx) {
	switch t.next {
	case callPause:
		t.afterPause(Pause(ctx, t.conflicts))
	case callRead:
		t.afterRead(tx.Read(ctx))
	case callExtend:
		t.afterExtend(tx.Extend(ctx, t.s))
	case callSwap:
		t.afterSwap(tx.Swap(ctx, t.s, t.plan.write))
	case noCall:
	}
}

func (t *transaction) afterPause(err error) {
	if t.next = callRead; err != nil {
		t.end(err)
	}
}

func (t *transaction) afterRead(s Snapshot, err error) {
	if err != nil {
		t.end(err)
		return
	}
	t.s, t.known = s, false
	t.decide()
}

func (t *transaction) decide() {
	t.plan = decideOn(t.s, t.q, t.rule)
	if t.plan.needed && t.plan.write.Lease != nil {
		t.next = callExtend
		return
	}
	t.chooseCall()
}

// chooseCall chooses the call that follows a decision. If nothing is written, a decision on what was known before is no answer: that may
// be older than the last renewal, and show a lease as run out that was renewed since. Then the transaction reads, and decides again.
func (t *transaction) chooseCall() {
	switch {
	case t.plan.needed:
		t.next = callSwap
	case t.known:
		t.next = callRead
	default:
		t.end(t.plan.answer)
	}
}

// afterExtend takes the TTL that the store's own lease has now. If the store does not know that lease, the transaction reads once more: the
// server that was asked may lag behind the others.
func (t *transaction) afterExtend(ttl time.Duration, err error) {
	switch {
	case errors.Is(err, ErrNoLease) && !t.doubted:
		t.next, t.doubted = callRead, true
	case err != nil:
		t.end(err)
	case ttl < t.q.TTL:
		t.end(fmt.Errorf("a lease of %v was asked for, and one of %v was given", t.q.TTL, ttl))
	case ttl > t.q.TTL:
		t.q.TTL = ttl
		t.plan = decideOn(t.s, t.q, t.rule)
		t.chooseCall()
	default:
		t.chooseCall()
	}
}

// afterSwap takes the result of a Swap. After the first conflict the transaction decides at once on what the answer shows. If others are
// quicker again, there are many of them: then it pauses, and reads afterwards, because the answer is old by then.
func (t *transaction) afterSwap(now Snapshot, done bool, err error) {
	t.conflicts++
	switch {
	case err != nil:
		t.end(err)
	case done:
		t.s = now
		t.end(t.plan.answer)
	case t.conflicts > 1:
		t.next = callPause
	case now == nil:
		t.next = callRead
	default:
		t.afterRead(now, nil)
	}
}

func (t *transaction) end(err error) { t.next, t.err = noCall, err }

// fullHint is the remedy where a record leaves no room for the next token or beat.
const fullHint = "somebody has written a number into the record that leaves no room: mend it by the store's own tools while no run of the job is on"

// decideOn decides on a snapshot. If the lease is another program's, claims and orders are refused. Renewals and ends are still
// decided, because they never touch the lease of somebody else. What nobody could read again is not written: a token or beat beyond
// MaxToken.
func decideOn(s Snapshot, q Request, decide rule) plan {
	v := s.View(q)
	if v.Foreign != nil && q.Op != ToRenew && q.Op != ToFinish && q.Op != ToAbandon {
		return plan{answer: v.Foreign}
	}
	p := decide(v, q.TTL)
	p.write.Record.Form = RecordForm
	written := p.write.Record
	written.Beat = max(written.Beat, 0) // where somebody has put an old record back, the store counts anew
	if wrong := written.Check(); p.needed && wrong != nil {
		return plan{answer: Misconfigured(fullHint, "the record could not be read again after this step: %w", wrong)}
	}
	return p
}

// The shortest and the longest pause after a conflict.
const (
	firstConflict = 2 * time.Millisecond
	lastConflict  = 100 * time.Millisecond
)

// Pause waits before the next read, at random, and longer after each conflict. It returns an error if the request must end instead.
// A store that reads or writes again by itself calls it too, from its second conflict on: what is in the way may stay.
func Pause(ctx context.Context, conflicts int) error {
	limit := min(firstConflict<<min(conflicts, 10), lastConflict)
	select {
	case <-time.After(rand.N(limit)): //nolint:gosec // jitter
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Watch implements Backend.
func (e *Engine) Watch(ctx context.Context, job string) (<-chan News, error) {
	return Rewatch(ctx, e.life, func(ctx context.Context, tell func(News)) error {
		return e.rekeying(ctx, func() error { return e.store.Follow(ctx, job, tell) })
	})
}

// Jobs implements Backend.
func (e *Engine) Jobs(ctx context.Context) ([]string, error) {
	ctx, cancel := During(ctx, e.life)
	defer cancel()
	var jobs []string
	err := e.rekeying(ctx, func() (err error) {
		jobs, err = e.store.List(ctx)
		return err
	})
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

// Close implements Backend. It ends the requests that are under way.
func (e *Engine) Close() error {
	e.endLife()
	return e.store.Close()
}

// Redacted returns the URL without its secrets.
func (e *Engine) Redacted() string { return e.traits.URL }

// String returns the same as Redacted.
func (e *Engine) String() string { return e.traits.URL }

// Prefix returns the prefix of all keys; "": none.
func (e *Engine) Prefix() string { return e.traits.Prefix }
