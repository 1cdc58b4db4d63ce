package backends

import (
	"context"
	"errors"
	"time"
)

// Store reads and writes the leases and records on one kind of server. An Engine makes a Driver of it, and decides what is
// written. Implementations are safe for concurrent use. Methods need not care about Close, because the engine ends their
// contexts. Their errors need not name the job, because the engine does.
//
// The rules that an author has to keep:
//
//   - No method repeats a request, renews by itself or logs, and no client library below it does. The runner repeats requests,
//     and knows when to give up.
//   - An error means that the outcome is unknown, unless it is a *Refusal, ErrLost or a *PermanentError. Never return ErrLost
//     because a request failed, or a *PermanentError for a fault that may be gone in a minute.
//   - Every method returns when its context ends, also while the server is frozen. A connection that timed out is not used
//     again.
//   - If a value cannot be read, return an error that names its key. Such a job is not free, and nobody overwrites the value.
//   - No error shows a secret of the URL.
type Store interface {
	// Traits says what the store is. It sends no request.
	Traits() Traits
	// Begin begins a transaction. It returns at once. Everything that it starts ends with ctx.
	Begin(ctx context.Context, q Request) Tx
	// Follow is one watch: it tells what happens to a job until ctx ends or the watch breaks. It tells Look as soon as it works,
	// then whenever the lease may have become free or an order was written, and in a store that proves a death by silence Seen
	// with every beat. What it misses only delays others. The engine calls it again and again, unless the error is a
	// *PermanentError.
	Follow(ctx context.Context, job string, tell func(News)) error
	// List returns the names of all jobs with a record, in any order; beside an error, those that can be read.
	List(ctx context.Context) ([]string, error)
	// Check looks at the store before anybody trusts it, as Backend.Examine.
	Check(ctx context.Context, ttl time.Duration) []Finding
	// Close ends the requests that are under way, and frees connections and files.
	Close() error
}

// Tx carries one request through a store: an optimistic transaction on the lease and the record of one job. One goroutine uses
// it. A store that cannot compare holds a lock from the first Read to End. Then nothing changes between Read and Swap, and each Swap
// of a Snapshot that this Tx has read succeeds. A Snapshot from Request.Known was not read under that lock: its Swap writes nothing,
// and returns what Read would.
type Tx interface {
	// Read returns lease and record as the store held them at one moment, which must not be before the call.
	Read(ctx context.Context) (Snapshot, error)
	// Extend prepares the store's own kind of lease, such as a session, before Swap ties the job to it. If the holder already has
	// the one in s, Extend extends it, and otherwise it makes one. It returns the TTL that this lease has from now on, which
	// may be longer than Request.TTL, or ErrNoLease if the store does not know it. A store without leases of its own, where
	// the lease is only what Swap writes, has nothing to do here.
	Extend(ctx context.Context, s Snapshot) (time.Duration, error)
	// Swap writes record and lease, both or neither, if both are still as in s. If they are not, it writes nothing: done is
	// false, and now is what the store holds, or nil if the answer does not show that. After a write, now is what was written.
	//
	// Swap must compare everything that the decision relied on, so that it notices a lease that expired or was replaced, a
	// record that was written, and a server that is another one. It compares values that never come again, not even in a store
	// that was restored from a backup. Renewals of one holder may overtake each other, so a new beat alone is no difference,
	// unless w.CompareBeat is set. If a store keeps Until and Beat apart from the record, a write that is no sign of life must not
	// change them.
	Swap(ctx context.Context, s Snapshot, w Write) (now Snapshot, done bool, err error)
	// End removes what the request does not need any more, such as a lease that Extend has made and no Swap has used. err is how
	// the request ended. A failure of End is not reported.
	End(ctx context.Context, err error)
}

// Request says who asks, and for what.
type Request struct {
	Op     Op
	Job    string
	Holder Holder        // ToClaim, ToRenew, ToFinish, ToAbandon: of the run
	TTL    time.Duration // ToClaim, ToRenew: of the lease
	Seen   LastSeen      // ToClaim, ToOrder: what the asker has seen of the holder
	Known  Snapshot      // ToRenew, ToFinish: what the holder's last request left in the store; nil: unknown
	// Doubted: a renewal after Known had no answer, so nobody knows whether it was applied. The request begins with a read.
	Doubted bool
	IsHedge bool // ToRenew: another renewal has no answer yet, so this one uses another connection or server
	Brief   bool // ToInspect: what is left of a lease may be a guess, and notes are not wanted
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

// Snapshot is what a store holds about a job, as one Read returned it or one Swap left it. Nobody changes it.
type Snapshot interface {
	// View returns what the request is decided on. Its Now is this moment, although a Request.Known was read earlier. A lease
	// that was valid when it was read is still in the View, even if its time has passed since: it may have been renewed.
	View(q Request) View
	// Newer says whether this snapshot is later than another one. Renewals of the same grant have left both.
	Newer(than Snapshot) bool
	// Complete sets the fields of a new grant that only the store knows: Native, Hold, Inherit.
	Complete(g *Grant)
}

// Write is what Swap writes.
type Write struct {
	Record      Record
	Lease       *Label        // the lease from now on, for TTL, whether it is new or renewed; nil: the lease stays as it is
	TTL         time.Duration // of Lease, from the write on; or the lease may end at Record.Until, which counts from the decision
	Beat        bool          // the holder's silence is counted anew: Record.Beat is new, and so is a beat that the store keeps apart; always set with Lease
	Release     bool          // remove the lease in the same step, without a delay of the store's own
	CompareBeat bool          // a beat since the Read is a difference, too
}

// ErrNoLease says that the server does not know the store's own lease that Extend was to extend. Another server may know it.
var ErrNoLease = errors.New("the server that was asked knows no such lease")

// Traits is what a store is.
type Traits struct {
	Limits Limits
	URL    string // the backend URL without its secrets
	Prefix string // the prefix of all keys; "": none
	// Rewrites says that an end or order is written even if it changes nothing: the same request may have been applied before
	// without reaching the replicas.
	Rewrites bool
	// EndsRead says that Finish begins with a read, even if Request.Known is set. A store needs that if Swap would compare Known
	// by values that come again, or cannot release a lease that this request has not read.
	EndsRead bool
}
