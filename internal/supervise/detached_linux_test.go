package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// A detached run has nothing of our terminal's session, whether there is one or not.
func TestADetachedRunHasASessionOfItsOwn(t *testing.T) {
	r := prepare(t, Options{Detached: true})
	r.start(r.shell("cut -d' ' -f6 /proc/self/stat >session"), far())
	r.wait(lifeline.Dead)
	text, err := os.ReadFile(filepath.Join(r.dir, "session"))
	must(t, err)
	session, err := os.ReadFile("/proc/self/stat")
	must(t, err)
	_, after, _ := strings.Cut(string(session), ") ")
	if own := strings.Fields(after)[3]; strings.TrimSpace(string(text)) == own {
		t.Errorf("the run is in our session %s", own)
	}
}

// Hazard: the number of a lost guardian, whose tree cannot be confirmed dead, is given to the guardian of another run.
func TestTheSweepOfALostGuardianLeavesWhoeverHasItsNumberAlone(t *testing.T) {
	r := prepare(t, Options{Detached: true})
	r.start(r.helper("daemon", "daemon", "stay"), far())
	r.pid("daemon")
	r.pid("command")
	lost := &Guard{pid: r.Guard.pid, terminalless: true, strays: firstChildren()}
	lost.sweep(nil) // what other tests have left to be reaped
	if left, _ := lost.sweep(nil); left != 0 {
		t.Errorf("%d processes of another run were taken for those of the lost one", left)
	}
	if !guards.reap(lost) {
		t.Error("the lost guardian was reaped long ago")
	}
	if len(r.Events()) != 0 || len(marked(r.mark)) != 2 {
		t.Errorf("events %d, processes %v", len(r.Events()), marked(r.mark))
	}
}
