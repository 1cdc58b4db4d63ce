package backends

import (
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// ErrLost says that the lease is not the grant's any more. It is final.
var ErrLost = errors.New("the lease is not ours any more")

// ErrUnknownJob says that the store keeps nothing about a job.
var ErrUnknownJob = errors.New("unknown job")

// Verdict is the answer to a claim.
type Verdict string

// The verdicts of Decide. All but Granted arrive as a *Refusal.
const (
	Granted     Verdict = "granted"
	Held        Verdict = "held"        // somebody has the lease
	Vanished    Verdict = "vanished"    // a lease is gone that was not released: its holder may still live for Wait
	Reserved    Verdict = "reserved"    // for Wait the job is kept for the host that had it last
	Quarantined Verdict = "quarantined" // the store may have forgotten a lease: for Wait nobody is granted
	Nested      Verdict = "nested"      // a run has the job that has started the process of this claim: see Inside
	Abandoned   Verdict = "abandoned"   // this holder took the claim back, or its run has ended

	// The end of the tick or key.
	IsDone    Verdict = "done"
	IsFailed  Verdict = "failed"
	IsStopped Verdict = "stopped"
	IsLost    Verdict = "lost"
	IsMissed  Verdict = "missed"
	IsEarlier Verdict = "earlier" // a tick before the recorded one, of which the recent runs know nothing

	// The claim itself.
	Late           Verdict = "late"            // later than its start deadline
	Future         Verdict = "future"          // a tick ahead of the server's clock: ours is wrong
	FutureRecorded Verdict = "future-recorded" // the recorded tick is ahead of the server's clock: somebody's is wrong
	Outdated       Verdict = "outdated"        // the claim's schedule was superseded
	Divided        Verdict = "divided"         // the tick or key was begun with another number of parts
)

// Refusal is the answer of a store that works and says no.
type Refusal struct {
	Verdict Verdict
	Holder  Holder        // Held, Vanished, Nested: whose lease; Reserved: who had it last; the ends of a tick, Divided: who ran it; FutureRecorded, Outdated: who wrote it
	Token   int64         // of the last grant
	Wait    time.Duration // Held: the lease's time left; Vanished, Quarantined, Reserved: how long to wait
	Seen    LastSeen      // Held, Vanished: what was seen, with For unset; the candidate stamps it when the reply arrives
	Tick    int64         // the recorded tick
	At      time.Time     // Outdated: when the recorded schedule was written
	Text    string        // Outdated: the recorded schedule
	Lease   time.Time     // Outdated: until when the lease was last held
	Parts   int           // Divided: the recorded number of parts
	First   bool          // this very claim wrote or found the loss: to be told, once
}

func (r *Refusal) Error() string {
	if r.Wait > 0 {
		return fmt.Sprintf("%s for %v", r.Verdict, r.Wait)
	}
	return string(r.Verdict)
}

// PermanentError is a failure that no retry mends. It has a Kind, the cause Err, and a Hint: the remedy in one line, or "".
type PermanentError = remedy.Error

// PermanentKind says whose fault a PermanentError is.
type PermanentKind = remedy.Kind

// The kinds of permanent errors.
const (
	Configuration = remedy.Configuration // the URL, an option, the server's kind
	Credentials   = remedy.Credentials   // the store refuses the user, password, token or certificate
)

// Misconfigured is a failure for a reason that stands in the URL, in an option or in the server's set-up, with the remedy. A
// record that a newer leaderrun has written is not to be mended or removed, as one that cannot be read for another reason.
func Misconfigured(hint, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if _, newer := errors.AsType[NewerForm](err); newer {
		hint = "install that leaderrun on this host too; the record stays as it is"
	}
	return &PermanentError{Kind: Configuration, Err: err, Hint: hint}
}

// Denied is a refusal of the user, password, token or certificate, with the remedy.
func Denied(hint string, err error) error {
	return &PermanentError{Kind: Credentials, Err: err, Hint: hint}
}

// IsPermanent says whether an error is one that no retry mends.
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*PermanentError](err)
	return ok
}

// IsDamage says whether an error may be of one record alone, which cannot be read: it counts as taken, and what others do goes on. A
// record of a newer form is whole, and credentials are those of all records.
func IsDamage(err error) bool {
	p, ok := errors.AsType[*PermanentError](err)
	_, newer := errors.AsType[NewerForm](err)
	return ok && p.Kind == Configuration && !newer
}

// About says which step of which job an error is of, where the error is not itself the answer. nil stays nil.
func About(step, job string, err error) error {
	if err == nil || IsAnswer(err) {
		return err
	}
	return fmt.Errorf("%s %q: %w", step, job, err)
}

// IsAnswer says whether an error is the word of a store that was reached, and not an outcome that is unknown: asking
// again changes nothing by itself.
func IsAnswer(err error) bool {
	_, refusal := errors.AsType[*Refusal](err)
	return refusal || IsPermanent(err) || errors.Is(err, ErrLost) || errors.Is(err, ErrUnknownJob) ||
		errors.Is(err, ErrOver) || errors.Is(err, ErrLags)
}
