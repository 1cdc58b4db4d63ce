package guardian

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// A wrapper that is stopped for long takes no message. Its guardian waits for that without turning in circles.
func TestADeadTreeIsNoReasonToHurry(t *testing.T) {
	g := &guardian{phase: dead, pid: 1, out: []byte("a message"), deadline: lifeline.Deadline{End: 1}}
	now := boottime.Now()
	if at := g.next(); at <= now {
		t.Errorf("nothing is left to do, and the next look was due %v ago", now.Sub(at))
	}
	g.locks, g.deadline.End = []int{-1}, now.Add(time.Millisecond)
	if at := g.next(); at != g.deadline.End {
		t.Errorf("locks are given back %v late", at.Sub(g.deadline.End))
	}
}
