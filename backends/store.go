package backends

import (
	"context"
	"errors"
	"time"
)

// Store is what a store has to be able to do. An Engine makes a Driver of it: the engine decides, a store reads and
// writes. Implementations are safe for concurrent use. No method needs to know of Close, or to say in its errors which
// job they are of: the engine ends their contexts and says it.
//
// The rules that an author has to keep:
//
//   - No method tries again, renews by itself or logs, nor does a client library below it. The runner repeats requests,
//     and knows when to give up.
//   - An error means that the outcome is unknown, unless it is a *Refusal, ErrLost or a *PermanentError. ErrLost is never
//     said because a request failed; nothing is permanent that a minute may mend.
//   - Every method returns when its context ends, also while the server is frozen. A connection that timed out is not used
//     again.
//   - What cannot be read is an error that names its key. It is not free, and it is not overwritten.
//   - No error shows a secret of the URL.
type Store interface {
	// Traits says what the store is. It asks nobody.
	Traits() Traits
	// Begin begins a transaction. It returns at once; what it starts ends with ctx.
	Begin(ctx context.Context, q Request) Tx
	// Follow is one watch: it tells what happens to a job until ctx ends or the watch breaks, and says Look when it
	// stands. The engine begins it anew until the error is a *PermanentError.
	Follow(ctx context.Context, job string, tell func(News)) error
	// List returns the names of all jobs with a record, in any order; beside an error, those that can be read.
	List(ctx context.Context) ([]string, error)
	// Check looks at the store before anybody trusts it, as Backend.Examine.
	Check(ctx context.Context, ttl time.Duration) []Finding
	// Close ends requests that are on their way, and frees connections and files.
	Close() error
}

// Tx is one request's way through a store: an optimistic transaction on lease and record of one job. It is used by one
// goroutine. A store that does not compare holds a lock from the first Read to End: then each Swap of what was read in it
// succeeds, and one of a Request.Known does what Read does.
type Tx interface {
	// Read returns what the store holds now, lease and record of one moment, and at least as new as the call.
	Read(ctx context.Context) (Snapshot, error)
	// Extend sees to the store's own kind of lease before it is held by a Swap: it extends that of s where the asker has
	// it, or else makes one. It returns the TTL that the lease has from now on, which may be longer than Request.TTL, and
	// ErrNoLease where the store knows no such lease. A store whose leases are only what Swap writes has nothing to do.
	Extend(ctx context.Context, s Snapshot) (time.Duration, error)
	// Swap writes record and lease, both or neither, if both are as s says. If not, it writes nothing: done is false, and
	// now is what there is, or nil where the answer does not show it. After a write now is what was written.
	//
	// It compares whatever the decision relied on, by values that never come again, also not in a store that was set
	// back: a lease that expired or was replaced, a record that was written, a server that is another one. Renewals of
	// one holder may overtake each other; so the beat alone is compared only where w.Still says so. Until and Beat are the
	// store's to keep where it has them apart from the record: a write that is no sign of life leaves them as they are.
	Swap(ctx context.Context, s Snapshot, w Write) (now Snapshot, done bool, err error)
	// End tidies up: a lease that was made and is not used, a session that is not needed. err is how the request ended.
	// Its own failure is no error.
	End(ctx context.Context, err error)
}

// Request is who asks, and for what.
type Request struct {
	Op     Op
	Job    string
	Holder Holder        // ToClaim, ToRenew, ToFinish, ToAbandon: of the run
	TTL    time.Duration // ToClaim, ToRenew: of the lease
	Seen   LastSeen      // ToClaim, ToOrder: what the asker has watched
	Known  Snapshot      // ToRenew, ToFinish: what the holder's last step left; nil: nothing is known
	// Doubted: what became of a renewal since Known nobody knows. The request begins with a read.
	Doubted bool
	Beside  bool // ToRenew: another renewal is on its way and stays silent; this one goes elsewhere
}

// Op is what a request is for.
type Op int

// The operations.
const (
	ToClaim Op = iota + 1
	ToRenew
	ToFinish
	ToAbandon
	ToOrder
	ToInspect // writes nothing
)

// Snapshot is what a store holds about a job, as one Read showed it or one Swap left it. It is never changed.
type Snapshot interface {
	// View returns what the request is decided on, at this moment: a Request.Known is of an earlier one, and the clock has
	// gone on since. A lease that was valid when it was read is not gone by that alone: it may have been renewed.
	View(q Request) View
	// Newer says whether it came after another one that a renewal of the same grant left.
	Newer(than Snapshot) bool
	// Complete adds to a new grant what only the store knows of it: Native, Hold, Inherit.
	Complete(g *Grant)
}

// Write is what a step writes.
type Write struct {
	Record  Record
	Lease   *Label        // from now on the lease is this one, for TTL, whether or not it was there; nil: it stays
	TTL     time.Duration // of Lease
	Beat    bool          // whoever counts the holder's silence begins anew; always with Lease
	Release bool          // the lease is removed in the same step, without any delay of the store's own
	Still   bool          // no beat may have come since the store was read, wherever it keeps beats
}

// ErrNoLease says that a store does not know its own lease that was to be extended. It may be one server's word.
var ErrNoLease = errors.New("the server that was asked knows no such lease")

// Traits is what a store is.
type Traits struct {
	Limits Limits
	URL    string // the backend URL without its secrets
	Prefix string // what the names of all keys begin with; "": they have none
	// Rewrites says that an end or order which changes nothing is written too: an earlier try may have been applied and
	// not have reached the replicas.
	Rewrites bool
	// EndsRead says that a run's end begins with a read, although something is known: what is known would be compared with
	// values that come again, or could release nothing.
	EndsRead bool
}
