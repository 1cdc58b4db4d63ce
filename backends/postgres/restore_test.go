package postgres

import (
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// TestPutBackBeforeTheWrite: a claim that read from one start of a server is not written in another one, where the row may be
// as absent as it was.
func TestPutBackBeforeTheWrite(t *testing.T) {
	w := newOwnWorld(t)
	w.Acquire(w.other, newSteady("another")) // from here on the mark stays as it is
	writes := 0
	intercept(w.d, func(request string) {
		if writes++; request != "write" || writes > 2 {
			return
		}
		w.Acquire(w.other, newSteady("job"))
		w.server.Restart(t, true)
		w.server.Do(t, "DELETE FROM leaderrun WHERE job = 'job'") // as a snapshot has it
		w.d.store.client.RotateEndpoint()                         // a pooler has a connection to the new one
	}, nil)
	w.Refused(w.d, newSteady("job"), backends.Quarantined)
}

// TestMarkIsCompared: a claim that was decided on under a mark is decided on again where somebody has deleted that, and others
// wait.
func TestMarkIsCompared(t *testing.T) {
	w := newOwnWorld(t)
	deleted := false
	intercept(w.d, func(request string) {
		if request == "write" && !deleted {
			deleted = true
			w.server.Do(t, "DELETE FROM leaderrun WHERE job = ''")
			w.Refused(w.other, newSteady("another"), backends.Quarantined)
		}
	}, nil)
	w.Refused(w.d, newSteady("job"), backends.Quarantined)
	if !deleted {
		t.Error("nothing came between")
	}
}
