// Package backends is the contract between leaderrun and the stores that keep its leases: the types, the
// errors, the driver interface, and the one decision (Decide and its companions) that every store takes.
//
// A backend keeps two things per job and changes them in one atomic step: a lease, which expires by itself,
// and a record, which does not. What a claim gets is decided by pure functions of what the store holds, so
// that it is written once and tested to death. An Engine carries the answer in and out of a Store.
package backends

import (
	"context"
	"os"
	"time"
)

// Driver is what is asked of a backend. An Engine makes one of a Store. Implementations are safe for concurrent use. They never retry, never
// log and never renew by themselves: the runner does, and a lease that nobody renews must expire, even where
// a client library would keep it alive.
//
// Every method returns when its context ends, also while a request is in flight; that request may still be
// applied. An error is a *Refusal, ErrLost, a *PermanentError, or else it means "outcome unknown": the step
// may or may not have been applied, and it is safe to ask again.
type Driver interface {
	// Acquire makes one attempt and does not wait for the holder. The token of the grant is greater than
	// every token granted before for the job. The same holder asking again gets the same grant, with the
	// lease renewed in that step.
	Acquire(ctx context.Context, c Claim) (Grant, error)
	// Renew proves two things or fails: the lease was extended by its TTL from now, and it still carries the
	// grant's holder and token. ErrLost says that it does not.
	Renew(ctx context.Context, g Grant) (Signal, error)
	// Finish records the outcome and releases the lease in one step. It never touches a newer lease. Asked
	// again it is answered from the recent runs; ErrLost says that somebody else was granted since.
	Finish(ctx context.Context, g Grant, o Outcome) error
	// Abandon takes a claim back, whether or not it is yet applied: what it claimed was never started, and a
	// later arrival of the same claim is refused.
	Abandon(ctx context.Context, c Claim) error
	// Watch wakes a waiter early: it sends when there is news of a job. To lose some only delays. A watch that stands only after
	// Watch has returned, or that was interrupted, sends Look when it does, because what happened before went unseen. The channel
	// holds one value, into which later news is merged (see Tell), and is closed when ctx ends or the watch breaks.
	Watch(ctx context.Context, job string) (<-chan News, error)
	// Limits says what the store can do. It asks nobody.
	Limits() Limits
	// Close ends requests and watches that are on their way, and frees connections and files. Leases are not
	// released. What became of a request that it ended is unknown, as after the end of a context.
	Close() error
}

// News is what a watch tells about a job.
type News struct {
	// Look says that the lease may have become free, or that it or the record has news for the holder.
	Look bool
	// Seen is a sign of life of the holder, with For unset: who receives it stamps it. Zero: none. Stores
	// that prove a holder's death by silence tell every beat, so that a standby knows the last one.
	Seen LastSeen
}

// Tell puts news into a channel that holds one value, merged with what nobody has received yet. It never blocks.
func Tell(ch chan News, n News) {
	for {
		select {
		case ch <- n:
			return
		default:
		}
		select {
		case old := <-ch:
			n.Look = n.Look || old.Look
			if n.Seen == (LastSeen{}) {
				n.Seen = old.Seen
			}
		default:
		}
	}
}

// Backend is a driver that operators ask, too: what it keeps, whether it is to be trusted, and to end a run. Every store is
// one, through its Engine.
type Backend interface {
	Driver
	// Inspect returns what is kept about a job, or ErrUnknownJob.
	Inspect(ctx context.Context, job string) (Status, error)
	// Jobs returns the names of all jobs with a record, sorted; beside an error, those that can be read.
	Jobs(ctx context.Context) ([]string, error)
	// Order carries out one order on a job, in one atomic step. It returns nil when what was ordered is so,
	// ErrUnknownJob when the store keeps nothing about the job, ErrOver when there is nothing (left) to do it
	// to, ErrLags when an Revoke is worth repeating after a third of the holder's TTL, a *Refusal when it is not
	// safe, a *PermanentError, or else "outcome unknown": orders may be repeated. One that was carried out already
	// changes nothing; it is answered with nil, or ErrOver if it is a Stop whose run has ended since.
	Order(ctx context.Context, o Order) error
	// Examine checks what the driver needs and what its promises hang on, before anybody trusts it: that it is reachable,
	// permissions, persistence, role and replicas, the server's version and its known bugs, and whether a lease of the given TTL
	// suits it. It changes nothing that others see. It returns at least one finding; a store that cannot be asked
	// is a Bad one. Findings show no password.
	Examine(ctx context.Context, ttl time.Duration) []Finding
	// Redacted returns the URL without its secrets.
	Redacted() string
	// Prefix returns what the names of all keys begin with; "": they have none.
	Prefix() string
}

// Finding is one thing that was looked at.
type Finding struct {
	Grade  Grade
	What   string // what was looked at, in a word or two: "persistence"
	Why    string // one line
	Remedy string // one line; empty where nothing is wrong
}

// Grade says how bad a finding is.
type Grade string

// The grades. With a Bad one the store must not be trusted as it is.
const (
	Fine    Grade = "ok"
	Warning Grade = "warning"
	Bad     Grade = "bad"
)

// Limits are the bounds of a store. They are checked once, before anything runs.
type Limits struct {
	MinTTL  time.Duration // smallest lease the store can keep; 0: none of its own
	MaxTTL  time.Duration // largest; 0: none
	MaxHint string        // how to raise MaxTTL, for the message that refuses a longer one
	// ExpiryLag returns for how long after the TTL the store may still refuse everybody because of a holder
	// that died; nil: not at all.
	ExpiryLag func(ttl time.Duration) time.Duration
	// HolderWatches says that a holder had better watch its own job, too: then it hears at once that its lease is
	// gone or that it is to stop, and else with its next renewal. It is not for a store on which each watch is a
	// connection more: one for each run would be much for little.
	HolderWatches bool
}

// TakeOver returns how long after the last renewal of a holder that died a standby is granted at the latest.
func (l Limits) TakeOver(ttl time.Duration) time.Duration {
	if l.ExpiryLag == nil {
		return ttl
	}
	return ttl + l.ExpiryLag(ttl)
}

// Holder is one attempt to run a job.
type Holder struct {
	ID   string `json:"id"` // 128 random bits in hexadecimal, new for every attempt
	Host string `json:"host"`
	PID  int    `json:"pid"`
	User string `json:"user"`
}

// Claim asks for the lease of a job.
type Claim struct {
	Job    string
	Holder Holder
	TTL    time.Duration
	Floor  int64    // highest token this process has seen for the job
	Seen   LastSeen // what the candidate has watched, for stores that prove a holder's death by silence
	// MinHold is for how long from the grant the job is kept for the claim's host, also where its run ends before; 0: it is not.
	MinHold time.Duration
	Trigger
}

// Trigger is what a run is for: a tick, a once-key, or (zero) nothing in particular.
type Trigger struct {
	Tick          int64         // scheduled instant in Unix seconds; 0: none
	Once          string        // once-key; "": none. Never together with Tick
	OnLost        Policy        // what becomes of the tick or key when its holder vanishes
	MaxAttempts   int           // how often Rerun starts one tick; at least 1
	StartDeadline time.Duration // a tick that is later than this is not started; 0: none
	Schedule      Schedule      // the schedule that the tick comes from; zero: none
	Unclaimed     Unclaimed     // proof that the recorded schedule is out of use
}

// Given says whether the run is for a tick or a key.
func (o Trigger) Given() bool { return o.Tick != 0 || o.Once != "" }

// Policy decides what becomes of a tick whose holder vanished or was stopped. The one stored with the
// tick's claim counts.
type Policy string

// The policies of --on-lost.
const (
	Skip  Policy = "skip"  // never again: at most once
	Rerun Policy = "rerun" // again, with a higher token and attempt: at least once
)

// Unclaimed tells of an instant of the recorded schedule that passed although the lease was free. A host
// whose schedule was superseded proves with it that nobody uses the recorded one any more.
type Unclaimed struct {
	Fingerprint string // the recorded schedule
	Instant     int64  // Unix seconds
}

// LastSeen is what a candidate has seen of a holder: the token and beat, and for how long they have not
// changed on the candidate's own clock, counted from the reply that showed them first.
type LastSeen struct {
	Token int64
	Beat  int64
	For   time.Duration
}

// Grant is the right to run a job until its TTL has passed since the request was sent.
type Grant struct {
	Claim   Claim // the claim that was granted
	Token   int64
	TTL     time.Duration // as granted: a store may round it
	Tick    int64         // the tick to run now; an earlier one than claimed if Rerun found that unfinished
	Attempt int           // 1 for the first start of a tick or key, and without one
	Native  string        // the store's own monotone number; "": none
	Lost    []Occurrence  // ticks and keys that this very claim found lost or missed: to be told, once
	Notes   []string      // other news that this very claim wrote into the record: to be told, once
	Hold    []*os.File    // descriptors that wrapper and guardian hold as long as the run lives, and its processes do not get
	Inherit []*os.File    // descriptors that the run must hold open as long as any of its processes lives
	Private any           // the driver's own
}

// Signal is what a renewal carries back.
type Signal struct {
	Break *BreakRequest // an operator asks the holder to stop; nil: nobody does
}

// Outcome is how a run ended.
type Outcome struct {
	State State // Done, Failed, Stopped or Lost; Open: the command never started
	Exit  int   // exit code as a shell shows it; without meaning when State is Open
}

// Status is what a store keeps about one job, read in one step.
type Status struct {
	Record Record
	Lease  *Lease        // nil: nobody has it
	Now    time.Time     // the clock that the record's times are in
	Wait   time.Duration // how long the next claim must still wait although the lease is free
	Notes  []string      // what the store cannot promise here, e.g. lowered replicas
}
