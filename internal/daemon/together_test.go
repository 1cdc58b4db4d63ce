package daemon

import (
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
)

// Hazard: a shard in its last attempt hides another that may run again, and nobody sees to the tick before the next one.
func TestAShardThatMayRunAgainIsSeen(t *testing.T) {
	at := func(state backends.State, attempt int) backends.Status {
		o := backends.Occurrence{Tick: 60, State: state, Policy: backends.Rerun, Attempt: attempt, MaxAttempts: 2, Parts: 2}
		return backends.Status{Record: backends.Record{Tick: o}}
	}
	def := &jobfile.Job{}
	def.OnLost = backends.Rerun
	for name, shards := range map[string][]backends.Status{
		"both claimed":          {at(backends.Claimed, 1), at(backends.Claimed, 2)},
		"one lost":              {at(backends.Lost, 1), at(backends.Claimed, 2)},
		"one done, one stopped": {at(backends.Done, 1), at(backends.Stopped, 1)},
		"lost twice, lost once": {at(backends.Lost, 2), at(backends.Lost, 1)},
	} {
		for range shards {
			if whole := together(def, shards); !whole.Record.Tick.MayRunAgain(def.OnLost) {
				t.Errorf("%s: %+v", name, whole.Record.Tick)
			}
			slices.Reverse(shards)
		}
	}
}
