package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
)

// never is when a lease without a TTL runs out.
const never boottime.Instant = math.MaxInt64

// step is what is asked of a store, or happens to a holder.
type step string

const (
	claims   step = "claim"
	renews   step = "renew"
	finishes step = "finish"
	abandons step = "abandon"
	dies     step = "die" // the holder's descriptors are closed; where leases have a TTL, nobody notices a death
)

// What is answered beside the verdicts of a claim.
const (
	ok      backends.Verdict = "ok"
	gone    backends.Verdict = "lease lost"
	unknown backends.Verdict = "unknown"
)

// request is the input of an operation on one job.
type request struct {
	step   step
	call   boottime.Instant
	holder int // holders are counted from 1
	token  int64

	// Of a claim.
	ttl    time.Duration // 0: until the holder dies
	tick   int64
	parts  int // into how many the work is divided, of which the job is one; 0: it is not
	policy backends.Policy
	most   int // attempts

	outcome backends.State // of a run that is finished
}

// reply is its output.
type reply struct {
	at      boottime.Instant // when it was there
	verdict backends.Verdict
	token   int64 // of a grant; of a refusal: of the last grant
	holder  int   // who is in the way
	ttl     time.Duration
	tick    int64
	attempt int
	parts   int // of a refusal, where another number was recorded
}

// phase is what is known of the lease of the last grant.
type phase int

const (
	free     phase = iota // released, or nobody was ever granted
	held                  // it may have run out, but nobody has seen that
	vanished              // somebody has seen that it is gone, without a release
)

// untold is a token of a grant that nobody has been told of.
const untold = -1

// lease is the state of the model: what a job's lease and record may be between two steps.
type lease struct {
	// Nothing but another grant or the holder takes the lease away, however long ago it ran out.
	lasting bool

	phase  phase
	holder int   // of the last grant; 0: there was none
	token  int64 // its token
	top    int64 // the highest token that anybody was told

	// Time is part of the state, because expiry is a step that nobody takes: until is the instant before which the
	// holder may trust its lease, so that nobody may find it gone, and since the one before which this state cannot
	// have come about.
	until, since boottime.Instant

	over  uint64 // holders whose run has ended or who took their claim back, one bit each
	ended string // tokens of runs that have ended, in order

	tick    occurrence // the last tick
	running int64      // the tick of the last grant; 0: none
	attempt int        // of the last grant
}

// newModel returns the lease as the contract of package backends describes it, written from the contract and not from
// the code that decides: two grants need a release or a whole TTL between them, tokens grow, a holder that asks again
// is told the same, and who was superseded is told so.
//
// The steps with an unknown outcome are no operations, or the checker would have to try all orders of them. They are
// steps that the model may take by itself at any time after their calls.
func newModel(flights []request, lasting bool) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{lease{lasting: lasting}} },
		Step: func(state, input, output any) []any {
			l, q, r := state.(lease), input.(request), output.(reply)
			var next []any
			for _, l := range l.reachable(flights, q.holder, r.at) {
				if after, fits := l.after(q, r); fits {
					next = append(next, after)
				}
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " → ", output) },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
	return m.ToModel()
}

// reachable returns what the state may have become until the given instant by steps with an unknown outcome, itself
// first. That a claim is taken back while its holder has no lease matters to this holder only: it is left out where
// somebody else asks.
func (l lease) reachable(flights []request, asking int, at boottime.Instant) []lease {
	states := []lease{l}
	for i := 0; i < len(states); i++ {
		for _, f := range flights {
			if f.call > at || f.step == abandons && f.holder != asking && f.holder != states[i].holder {
				continue
			}
			for _, befall := range []func(lease, request, boottime.Instant) (lease, bool){lease.befallen, lease.lapsed} {
				next, came := befall(states[i], f, at)
				if came && !slices.ContainsFunc(states, func(other lease) bool { return other.allows(next) }) {
					states = append(states, next)
				}
			}
		}
	}
	return states
}

// lapsed returns the state in which a lease without a TTL may be found gone all the same: its holder has asked for its end, or was never
// told that it has it.
func (l lease) lapsed(f request, _ boottime.Instant) (lease, bool) {
	if l.until != never || l.phase != held || l.holder != f.holder || f.step == claims && l.token != untold {
		return l, false
	}
	l.since = max(l.since, f.call)
	l.until = l.since
	return l, true
}

// allows says whether all that can follow the other state can follow this one: they differ in nothing but time.
func (l lease) allows(other lease) bool {
	if l.until > other.until || l.since > other.since {
		return false
	}
	l.until, l.since = other.until, other.since
	return l == other
}

// befallen returns the state after a step whose outcome was unknown, if it has an effect.
func (l lease) befallen(f request, at boottime.Instant) (lease, bool) {
	if l.isOver(f.holder) {
		return l, false
	}
	l.since = max(l.since, f.call)
	switch f.step {
	case claims:
		if next, granted := l.granted(f, at); granted {
			return next.extended(f, f.ttl), true
		}
		next, empty := l.empty(at)
		next, closed := next.closed(f, reply{verdict: backends.IsLost})
		return next, empty && closed && next.tick != l.tick // it found that the tick's holder is gone
	case finishes:
		known, mine := l.told(f.token)
		return known.end(f.outcome), mine && l.phase != free && l.holder == f.holder
	case abandons:
		next, _ := l.abandoned(f, reply{verdict: ok})
		return next, true
	}
	return l, false
}

// after returns the state after a step, and whether the answer fits.
func (l lease) after(q request, r reply) (lease, bool) {
	if r.at < l.since {
		return l, false
	}
	l.since = max(l.since, q.call)
	switch q.step {
	case claims:
		return l.claimed(q, r)
	case renews:
		return l.renewed(q, r)
	case finishes:
		return l.finished(q, r)
	case abandons:
		return l.abandoned(q, r)
	case dies:
		if l.holder == q.holder && l.token == q.token {
			l.until = min(l.until, q.call)
		}
		return l, true
	}
	return l, false
}

// empty returns the state in which nobody has the lease at the given instant, if that can be.
func (l lease) empty(at boottime.Instant) (lease, bool) {
	if l.phase != held {
		return l, true
	}
	l.since = max(l.since, l.until)
	if !l.lasting {
		l.phase = vanished
	}
	return l, at >= l.since
}

// told returns the state in which the token of the last grant is known, and whether it is this one.
func (l lease) told(token int64) (lease, bool) {
	if l.token == untold && token > l.top {
		l.token, l.top = token, token
	}
	return l, l.token == token
}

// extended says from when on the lease may be found gone. The store counts the TTL from the moment of its own step,
// which is after the call. A hundredth is for clocks of different speed and for times in whole milliseconds.
func (l lease) extended(q request, ttl time.Duration) lease {
	if ttl == 0 {
		l.until = never
		return l
	}
	l.until = max(l.until, max(q.call, l.since).Add(ttl-ttl/100))
	return l
}

func (l lease) isOver(holder int) bool { return l.over&(1<<holder) != 0 }

func (l lease) claimed(q request, r reply) (lease, bool) {
	if r.verdict != backends.Granted {
		return l.refused(q, r)
	}
	if known, same := l.told(r.token); same && l.phase == held && l.holder == q.holder {
		return known.extended(q, r.ttl), r.tick == l.running && r.attempt == l.attempt && (r.tick == 0 || q.parts == l.tick.parts)
	}
	if r.token <= l.top {
		return l, false
	}
	next, granted := l.granted(q, r.at)
	next.token, next.top = r.token, r.token
	return next.extended(q, r.ttl), granted && r.tick == next.running && r.attempt == next.attempt
}

// granted returns the state after a new grant with a token that nobody knows, if there can be one.
func (l lease) granted(q request, at boottime.Instant) (lease, bool) {
	next, empty := l.empty(at)
	tick, attempt, due := l.due(q)
	if !empty || !due || l.isOver(q.holder) {
		return l, false
	}
	next.phase, next.holder, next.token, next.until = held, q.holder, untold, next.since
	next.running, next.attempt = tick, attempt
	if tick != 0 {
		next.tick = occurrence{
			tick: tick, parts: q.parts, state: backends.Claimed, claimant: q.holder, policy: q.policy, attempt: attempt, most: q.most,
		}
	}
	return next, true
}

// refused judges a refusal. All but one are given only while nobody has the lease.
func (l lease) refused(q request, r reply) (lease, bool) {
	l, current := l.told(r.token)
	if !current {
		return l, false // what the store said was not so any more, or not yet
	}
	if r.verdict == backends.Held {
		return l, l.phase == held && l.holder != q.holder && r.holder == l.holder
	}
	l, empty := l.empty(r.at)
	if !empty || l.isOver(q.holder) != (r.verdict == backends.Abandoned) {
		return l, false
	}
	switch r.verdict {
	case backends.Abandoned, backends.Quarantined:
		return l, true
	case backends.Vanished:
		return l, l.holder != 0
	}
	return l.closed(q, r)
}

func (l lease) renewed(q request, r reply) (lease, bool) {
	known, mine := l.told(q.token)
	mine = mine && l.phase == held && l.holder == q.holder
	switch {
	case r.verdict == ok:
		return known.extended(q, q.ttl), mine
	case r.verdict == gone && mine:
		return known.empty(r.at)
	}
	return l, r.verdict == gone
}

func (l lease) finished(q request, r reply) (lease, bool) {
	known, mine := l.told(q.token)
	mine = mine && l.phase != free && l.holder == q.holder
	ended := strings.Contains(l.ended, mark(q.token))
	switch {
	case mine && r.verdict == ok:
		return known.end(q.outcome), true
	case r.verdict == ok:
		return l, ended
	}
	return l, r.verdict == gone && !mine && !ended
}

func (l lease) abandoned(q request, r reply) (lease, bool) {
	if l.phase != free && l.holder == q.holder {
		l = l.end(backends.Open)
	}
	l.over |= 1 << q.holder
	return l, r.verdict == ok
}

// end closes the run of the last grant.
func (l lease) end(s backends.State) lease {
	l.phase = free
	l.over |= 1 << l.holder
	if l.token != untold {
		l.ended += mark(l.token)
	}
	if l.tick.tick == l.running && l.tick.claimant == l.holder {
		l.tick = l.tick.settled(s)
	}
	return l
}

func mark(token int64) string { return fmt.Sprintf(" %d ", token) }
