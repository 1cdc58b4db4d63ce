package supervise

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

const (
	// A guardian that kills says so ten times a second, if the machine lets it. silence is for how long it may say nothing where it is
	// urgent: the wrapper kills beside it by then, but cannot prove that the tree is dead while the guardian is its parent.
	silence = 350 * time.Millisecond
	// slack is the same before that, and for how long it may take to begin. The machine may be too busy to read its process table within
	// a second, and only time is at stake: if the guardian were taken for lost, the run would fail.
	slack = 5 * time.Second
	// timeToAck is how long an extension may be under way where the time of SIGTERM comes sooner: one that was sent just before
	// that says nothing yet about the guardian. It is never waited for longer than graceToAnswer after the time of SIGKILL: the
	// wrapper needs what is left until the deadline's end to kill the tree itself.
	timeToAck = time.Second
	// secondLook: a wrapper that was itself stopped reads what has arrived before it judges.
	secondLook = 50 * time.Millisecond
)

// watchdog decides when the guardian must be taken for lost: it did not acknowledge an extension while
// there was still time to end the run, or did not kill when it had to. Guarded by Guard.mu.
type watchdog struct {
	phase    phase
	sent     lifeline.Deadline
	acked    lifeline.Deadline // the last that the guardian is known to go by; or to have heard of, where it kills
	inFlight map[int64]extension
	sequence int64 // of the last extension; Start's is 1

	killAsked boottime.Instant
	lostAt    boottime.Instant // the lease: asked to kill because another may have it
	lastHeard boottime.Instant
	suspect   boottime.Instant // overdue since
	status    lifeline.Status
}

// phase is how far a run has come, as far as the wrapper knows.
type phase int

const (
	notBegun phase = iota // nothing runs
	guarded               // Start was sent: there may be a tree
	killing               // the guardian has said that it kills
	dead                  // the whole tree is confirmed dead
)

// mayLive says whether there may be a tree that is alive.
func (p phase) mayLive() bool { return p == guarded || p == killing }

// extension is a deadline that was sent and not acknowledged; the first one is Start's.
type extension struct {
	deadline lifeline.Deadline
	sent     boottime.Instant
}

func (w *watchdog) start(d lifeline.Deadline, now boottime.Instant) {
	*w = watchdog{phase: guarded, sent: d, acked: d, sequence: 1, inFlight: map[int64]extension{1: {d, now}}}
}

// extend returns the frame to send, or nil. Also after Dead: a guardian that has locks to give back stays
// until the deadline if it is not dismissed.
func (w *watchdog) extend(d lifeline.Deadline, now boottime.Instant) []byte {
	if w.phase == notBegun || d.End <= w.sent.End {
		return nil
	}
	w.sequence++
	w.sent = d
	w.inFlight[w.sequence] = extension{d, now}
	return guardian.ExtendMessage(w.sequence, d).Encode()
}

func (w *watchdog) ack(sequence int64) {
	if e, ok := w.inFlight[sequence]; ok {
		w.acked = e.deadline
	}
	for s := range w.inFlight {
		if s <= sequence {
			delete(w.inFlight, s)
		}
	}
}

func (w *watchdog) askKill(now boottime.Instant, lost bool) {
	if w.killAsked == 0 {
		w.killAsked = now
	}
	if lost && w.lostAt == 0 {
		w.lostAt = now
	}
}

// heard notes a sign of life; kills says that it is one of a guardian that kills.
func (w *watchdog) heard(now boottime.Instant, kills bool) {
	w.lastHeard = now
	if kills && w.phase == guarded {
		w.phase = killing
	}
}

// urgent is from when on the wrapper must kill what may be alive: it needs what is left until the deadline's end, and where the lease is
// lost, another may have it already. No sign of life moves it.
func (w *watchdog) urgent() boottime.Instant {
	at := w.acked.Kill
	if w.lostAt != 0 {
		at = min(at, w.lostAt)
	}
	return at.Add(graceToAnswer)
}

// due is when the guardian is lost if nothing is heard until then; 0 is never.
//
//	                 Kill, or the loss of the lease
//	                               │◀── 0.1 s ──▶ urgent
//	───────────────────────────────┼─────────────┼──────────────────────────▶
//	it has not begun to kill:                    lost
//	it kills:    lost where nothing is heard     the wrapper kills beside it; lost
//	             for 5 s                         where nothing is heard for 0.35 s
//
// Besides, one that does not answer an extension until Term is lost, and one that was asked to kill and has not begun for 5 s.
func (w *watchdog) due() boottime.Instant {
	if !w.phase.mayLive() {
		return 0
	}
	at := w.urgent()
	if w.phase == killing {
		return max(w.lastHeard.Add(silence), min(w.lastHeard.Add(slack), at))
	}
	for _, e := range w.inFlight {
		at = min(at, max(w.acked.Term, e.sent.Add(timeToAck)))
	}
	if w.killAsked != 0 {
		at = min(at, w.killAsked.Add(slack))
	}
	return at
}

// notStarted is also said of a guardian whose exec(2) of the command hangs, on a disk that is busy or gone.
const notStarted = "did not start the command in time"

// lack is what the guardian has not done, for people.
func (w *watchdog) lack(now boottime.Instant) string {
	_, starting := w.inFlight[1]
	switch {
	case w.phase == killing:
		return "fell silent while it killed"
	case starting:
		return notStarted
	case w.killAsked != 0 || now >= w.acked.Kill:
		return "did not kill in time"
	default:
		return "did not answer in time"
	}
}

// verdict is what the wrapper must do.
type verdict int

const (
	fine   verdict = iota
	beside         // the wrapper kills beside the guardian
	lost           // the guardian is lost: the wrapper takes over
)

// look returns what to do, and when to look again (0: when something changes).
func (w *watchdog) look(now boottime.Instant) (v verdict, again boottime.Instant) {
	due := w.due()
	switch {
	case due != 0 && now >= due:
		if w.suspect == 0 {
			w.suspect = now
		}
		if second := w.suspect.Add(secondLook); now < second {
			return fine, second
		}
		return lost, 0
	case w.phase != killing:
		again = due
	case now < w.urgent():
		again = min(due, w.urgent())
	default:
		v, again = beside, min(due, now.Add(tree.SlowestPoll))
	}
	w.suspect = 0
	return v, again
}
