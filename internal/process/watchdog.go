package process

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/process/guardian"
)

const (
	// silence is how long a guardian that is killing may say nothing; it says so four times a second.
	silence = time.Second
	// secondLook: a wrapper that was itself stopped reads what has arrived before it judges.
	secondLook = 50 * time.Millisecond
)

// watchdog decides when the guardian must be taken for lost: it did not acknowledge an extension while
// there was still time to end the run, or did not kill when it had to. Guarded by Guard.mu.
type watchdog struct {
	started  bool // Start was sent: there may be a tree
	dead     bool
	sent     lifeline.Deadline
	acked    lifeline.Deadline // the last that the guardian is known to go by
	inFlight map[int64]lifeline.Deadline
	sequence int64
	answered int64

	killAsked boottime.Instant
	killing   bool
	lastHeard boottime.Instant
	suspect   boottime.Instant // overdue since
	status    lifeline.Status
	pid       int // the command's
}

func (w *watchdog) start(d lifeline.Deadline) {
	*w = watchdog{started: true, sent: d, acked: d, sequence: 1, inFlight: map[int64]lifeline.Deadline{1: d}}
}

// extend returns the frame to send, or nil. Also after Dead: a guardian that has locks to give back stays
// until the deadline if it is not dismissed.
func (w *watchdog) extend(d lifeline.Deadline) []byte {
	if !w.started || d.End <= w.sent.End {
		return nil
	}
	w.sequence++
	w.sent = d
	w.inFlight[w.sequence] = d
	return guardian.ExtendMessage(w.sequence, d).Encode()
}

func (w *watchdog) ack(sequence int64) {
	if d, ok := w.inFlight[sequence]; ok {
		w.acked, w.answered = d, sequence
	}
	for s := range w.inFlight {
		if s <= sequence {
			delete(w.inFlight, s)
		}
	}
}

func (w *watchdog) askKill(now boottime.Instant) {
	if w.killAsked == 0 {
		w.killAsked = now
	}
}

func (w *watchdog) heardKilling(now boottime.Instant) { w.killing, w.lastHeard = true, now }

// due is when the guardian is lost if nothing is heard until then; 0 is never.
func (w *watchdog) due() boottime.Instant {
	if !w.started || w.dead {
		return 0
	}
	if w.killing {
		return w.lastHeard.Add(silence)
	}
	at := w.acked.Kill.Add(graceToAnswer)
	if len(w.inFlight) > 0 {
		at = min(at, w.acked.Term)
	}
	if w.killAsked != 0 {
		at = min(at, w.killAsked.Add(graceToAnswer))
	}
	return at
}

// look returns whether the guardian is lost, and when to look again (0: when something changes).
func (w *watchdog) look(now boottime.Instant) (lost bool, again boottime.Instant) {
	due := w.due()
	switch {
	case due == 0 || now < due:
		w.suspect = 0
		return false, due
	case w.suspect == 0:
		w.suspect = now
	}
	return now >= w.suspect.Add(secondLook), w.suspect.Add(secondLook)
}
