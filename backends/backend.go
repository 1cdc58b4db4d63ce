// Package backends is the contract between leaderrun and the stores that keep its leases: the types, the
// errors, the driver interface, and the one decision (Decide and its companions) that every store takes.
//
// A backend keeps two things per job and changes them in one atomic step: a lease, which expires by itself,
// and a record, which does not. Pure functions decide what a claim gets. They see only what the store holds and the claim, so one
// implementation serves every store, and tests can try it thoroughly. An Engine reads from a Store, calls these functions, and
// writes what they decide.
package backends

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"slices"
	"time"
)

// Driver is the part of a backend that a run uses. An Engine makes one of a Store. Implementations are safe for concurrent use.
// They never retry, log or renew by themselves, because the runner does that. A lease that nobody renews must expire, even if a
// client library would keep it alive.
//
// Every method returns when its context ends, also while a request is in flight; that request may still be
// applied. An error is a *Refusal, ErrLost, a *PermanentError, or else it means "outcome unknown": the step
// may or may not have been applied, and it is safe to ask again.
type Driver interface {
	// Acquire makes one claim, and does not wait while somebody else has the job. The token of the grant is greater than
	// every token granted before for the job. If the same holder asks again, it gets the same grant, and the
	// lease is renewed in that step.
	Acquire(ctx context.Context, c Claim) (Grant, error)
	// Renew proves two things or fails: the lease was extended by its TTL from now, and it still carries the
	// grant's holder and token. ErrLost says that it does not.
	Renew(ctx context.Context, g Grant) (RenewAnswer, error)
	// Finish records the outcome and releases the lease in one step. It never touches a newer lease. If it is asked
	// again, the recent runs have the answer. ErrLost says that somebody else was granted the job since.
	Finish(ctx context.Context, g Grant, o Outcome) error
	// Abandon takes a claim back, whether or not the store has applied it yet. Its command was never started. If the same
	// claim arrives later, it is refused.
	Abandon(ctx context.Context, c Claim) error
	// Watch wakes a waiter early: it sends when there is news of a job. Lost news only delay the waiter. If the watch begins only
	// after Watch has returned, or was interrupted, it sends Look once it works, because nobody saw what happened before. The
	// channel holds one value, into which Tell merges later news. It is closed when ctx ends or the watch breaks.
	Watch(ctx context.Context, job string) (<-chan News, error)
	// Limits says what the store can do. It sends no request.
	Limits() Limits
	// Close ends the requests and watches that are under way, and frees connections and files. It releases no lease. The
	// outcome of a request that it ends is unknown, as after the end of a context.
	Close() error
}

// News is what a watch tells about a job.
type News struct {
	// Look says that the lease may have become free, or that it or the record has news for the holder.
	Look bool
	// Seen is a sign of life of the holder. Its For is unset, because the receiver counts the time. Zero: none. Stores
	// that prove a holder's death by silence tell every beat, so that a standby knows the last one.
	Seen LastSeen
}

// Tell puts news into a channel that holds one value. If nobody has received the last value yet, Tell merges both. It never blocks.
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

// Backend is a driver that serves operators, too: they look at jobs, examine the store, and give orders, for example to end a
// run. The Engine makes one of every store.
type Backend interface {
	Driver
	// Inspect returns what is kept about a job, or ErrUnknownJob.
	Inspect(ctx context.Context, job string) (Status, error)
	// Look is Inspect for a program: Lease.Left may be a guess, and there are no Notes, where these cost a store further requests.
	Look(ctx context.Context, job string) (Status, error)
	// Jobs returns the names of all jobs with a record, sorted; beside an error, those that can be read.
	Jobs(ctx context.Context) ([]string, error)
	// Order carries out one order on a job, in one atomic step. It returns nil if the order is carried out,
	// ErrUnknownJob if the store keeps nothing about the job, ErrOver if the order has nothing to act on (any more),
	// ErrLags if a Revoke should be repeated after a third of the holder's TTL, a *Refusal if the order is not
	// safe now, a *PermanentError, or else "outcome unknown". It is safe to repeat an order: one that was carried out already
	// changes nothing, and returns nil, or ErrOver for a Stop whose run has ended since.
	Order(ctx context.Context, o Order) error
	// Examine checks what the driver needs and what its promises depend on, before anybody trusts it: that the server is reachable,
	// permissions, persistence, role and replicas, the server's version and its known bugs, and whether a lease of the given TTL
	// suits it. It changes nothing that others see. It returns at least one finding. If the store cannot be reached, that is
	// a Bad one. Findings show no password.
	Examine(ctx context.Context, ttl time.Duration) []Finding
	// FollowURL says where rawURL, with which the store was opened, is kept. If the store refuses its user or password, the URL is read again, and the
	// request is sent once more if they have changed. It is called before the first request.
	FollowURL(rawURL string, read func() (string, error))
	// Reread reads that URL now, and says whether its user or password has changed. An error says why the new URL is not taken: then
	// the old ones stay.
	Reread(ctx context.Context) (changed bool, err error)
	// Redacted returns the URL of the backend without its secrets.
	Redacted() string
	// Prefix returns the prefix of all keys; "": none.
	Prefix() string
}

// Finding is the result of one check of a store.
type Finding struct {
	Grade  Grade
	What   string // what was checked, in a word or two: "persistence"
	Why    string // one line
	Remedy string // one line; empty where nothing is wrong
}

// Grade says how bad a finding is.
type Grade string

// The grades. A store with a Bad finding must not be trusted as it is.
const (
	Fine    Grade = "ok"
	Warning Grade = "warning"
	Bad     Grade = "bad"
)

// Limits are the bounds of a store. The caller checks them once, before anything runs.
type Limits struct {
	MinTTL  time.Duration // smallest lease the store can keep; 0: none of its own
	MaxTTL  time.Duration // largest; 0: none
	MaxHint string        // how to raise MaxTTL, for the message that refuses a longer one
	// ExpiryLag returns for how long after the TTL the store may still refuse everybody because of a holder
	// that died; nil: not at all.
	ExpiryLag func(ttl time.Duration) time.Duration
	// LocalHolders returns the processes of this host that hold the lease of a job's run, sorted; none if nobody does. It asks the
	// kernel, and returns an error where that does not tell. When the last of them is gone, the job is free. nil: leases are not held
	// by processes. Where they are, a lease ends when they do and not otherwise: as long as it is held, Revoke (unless it is ErrLags)
	// and ForceRelease are refused with a *PermanentError.
	LocalHolders func(job string) ([]int, error)
	// BySilence says that the death of a holder is proved by silence (ByBeat): who has not seen its last sign of life waits for a TTL.
	BySilence bool
	// HolderWatches says that a holder should watch its own job, too. Then it hears at once that its lease is gone or that
	// it must stop, and not only with its next renewal. It is false for a store on which each watch takes a connection of its
	// own: one more connection for each run would cost more than it gains.
	HolderWatches bool
}

// TakeOver returns the longest time from the last renewal of a holder that died to the grant of a standby.
func (l Limits) TakeOver(ttl time.Duration) time.Duration {
	if l.ExpiryLag == nil {
		return ttl
	}
	return ttl + l.ExpiryLag(ttl)
}

// NewID returns 128 random bits as text, which tell an attempt or an order from all others, whatever the host is called.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// Holder identifies one attempt to run a job: who has the lease, or asks for it.
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
	Seen   LastSeen // what the candidate has seen, for stores that prove a holder's death by silence
	// MinHold is how long, from the grant on, the job is kept for the claim's host, even if the run ends earlier; 0: it is not.
	MinHold time.Duration
	Inside  Inside
	Trigger
}

// Inside lists the ids of the holders whose runs have started the process of a claim, directly or through other processes. A claim of
// the job of such a run would wait for itself, or leave the work to itself.
type Inside []string

// Has says whether a holder is one of those.
func (i Inside) Has(h Holder) bool { return h.ID != "" && slices.Contains(i, h.ID) }

// Trigger is what a run is for: a tick, a once-key, or neither.
type Trigger struct {
	Tick          int64         // scheduled instant in Unix seconds; 0: none
	Once          string        // once-key; "": none. Never together with Tick
	OnLost        Policy        // what becomes of the tick or key when its holder vanishes
	MaxAttempts   int           // how often Rerun starts one tick; at least 1
	StartDeadline time.Duration // a tick that is later than this is not started; 0: none
	Schedule      Schedule      // the schedule that the tick comes from; zero: none
	Parts         int           // into how many parts the work is divided, of which the job is one; 0: it is not divided
	Unclaimed     Unclaimed     // the proof that nobody uses the recorded schedule any more
}

// Given says whether the run is for a tick or a key.
func (o Trigger) Given() bool { return o.Tick != 0 || o.Once != "" }

// Policy decides what becomes of a tick whose holder vanished or was stopped. The store keeps the policy of the claim that was
// granted the tick. The tick runs again only if that policy and the one of the next claim are Rerun.
type Policy string

// The policies of --on-lost.
const (
	Skip  Policy = "skip"  // never again: at most once
	Rerun Policy = "rerun" // again, with a higher token and attempt: at least once
)

// Unclaimed names an instant of the recorded schedule that nobody claimed although the job was free. With it, a host
// whose schedule was superseded proves that nobody uses the recorded schedule any more.
type Unclaimed struct {
	Fingerprint string // the recorded schedule
	Instant     int64  // Unix seconds
}

// LastSeen is what a candidate has seen of a holder: the token and the beat, and for how long both have stayed the same. The
// candidate counts that time on its own clock, from the reply that showed them first.
type LastSeen struct {
	Token int64
	Beat  int64
	For   time.Duration
}

// Grant is the right to run a job. It lasts for its TTL, from the instant before the request was sent.
type Grant struct {
	Claim   Claim // the claim that was granted
	Token   int64
	TTL     time.Duration // as granted: a store may round it up
	Tick    int64         // the tick to run now. It is earlier than the claimed one if an earlier tick is unfinished and may run again
	Attempt int           // 1 for the first start of a tick or key, and without one
	Native  string        // the store's own monotone number; "": none
	Lost    []Occurrence  // ticks and keys that this claim found lost or missed. Nobody else finds them, so the user must be told
	Notes   []string      // other changes that this claim made to the record, for the user
	Hold    []*os.File    // descriptors that wrapper and guardian keep open while the run lives; its processes do not get them
	Inherit []*os.File    // descriptors that stay open as long as any process of the run lives
	Private any           // for the driver alone
}

// RenewAnswer is what a renewal tells the holder, besides that it still has the lease.
type RenewAnswer struct {
	Break *BreakRequest // an operator asks the holder to stop; nil: nobody does
}

// Outcome is how a run ended.
type Outcome struct {
	State State  // Done, Failed, Stopped or Lost; Open: the command never started
	Exit  int    // exit code as a shell shows it; it has no meaning if State is Open
	Note  string // what the code does not say, for the history; may be empty
}

// Status is what a store keeps about one job, read in one step.
type Status struct {
	Record Record
	Lease  *Lease        // nil: nobody has it
	Now    time.Time     // by the clock that the record's times are in
	Wait   time.Duration // how long the next claim must still wait although the lease is free
	Notes  []string      // what the store cannot promise here, e.g. lowered replicas
}
