package daemon

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
)

// A fault before anything was claimed lost no run, and is not tried again at once: it would come again.
func TestAFaultBeforeTheClaimIsNoLostRun(t *testing.T) {
	for _, policy := range []backends.Policy{backends.Rerun, backends.Skip} {
		inBedRun(t, string(policy), func(t *testing.T, b *bed) {
			h := b.host("a", newJob(t, "j", "* * * * *", func(j *jobfile.Job) { j.OnLost = policy }))
			h.faults.Store(100) // of which a loop without pause makes its way
			time.Sleep(2*time.Minute + 30*time.Second)
			if left := h.faults.Swap(0); left != 98 {
				t.Errorf("the two ticks were tried %d times", 100-left)
			}
			time.Sleep(time.Minute)
			b.end(h)
			wantRuns(t, b, "j", "00:03")
			if got := b.outcomes("j"); got["7"] != 2 || got["ran 0"] != 1 || len(got) != 2 {
				t.Errorf("outcomes %v", got)
			}
		})
	}
}
