package operate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

var (
	alice = backends.Holder{ID: "h1", Host: "web1", PID: 7, User: "app"}
	bob   = backends.Holder{ID: "h2", Host: "web2", PID: 8, User: "app"}
)

// lostRun is the record of a run of alice for a tick that has not reported its end.
func lostRun() backends.Record {
	return backends.Record{
		Job: "j", Token: 5, Holder: alice, TTL: 15_000, Granted: 100_000, Until: 120_000,
		Tick: backends.Occurrence{Tick: 60, State: backends.Claimed, Claimant: alice, Policy: backends.Rerun, Attempt: 2, MaxAttempts: 3},
		Runs: []backends.Run{
			{Token: 5, Holder: alice, Tick: 60, Attempt: 2, Started: 100_000, State: backends.Claimed},
			{Token: 4, Holder: bob, Attempt: 1, Started: 50_000, Ended: 53_000, State: backends.Failed, Exit: 3},
		},
	}
}

func changed(r backends.Record, f func(*backends.Record)) backends.Record {
	f(&r)
	return r
}

// doneRun is lostRun with its end.
func doneRun() backends.Record {
	return changed(lostRun(), func(r *backends.Record) {
		r.Released, r.Ended, r.Tick.State = 5, 110_000, backends.Done
		r.Runs[0].State, r.Runs[0].Ended = backends.Done, 110_000
	})
}

// What a run has not reported is derived: nobody has to claim the job before a loss can be seen, and nothing that
// leaderrun stopped for want of its lease looks like success.
func TestHistoryDerivesWhatNobodyWroteDown(t *testing.T) {
	lease := &backends.Lease{Holder: "h1", Token: 5, Left: time.Second}
	passed := func(r backends.Record) backends.Record { r.Passed = 120; return r }
	for _, c := range []struct {
		name   string
		record backends.Record
		lease  *backends.Lease
		wait   time.Duration
		now    int64
		want   string // the states of all entries, newest first
		note   string // of the first
		tick   string
	}{
		{name: "running", record: lostRun(), lease: lease, want: "running failed", tick: "claimed"},
		{
			name: "its holder may still live", record: lostRun(), wait: 4 * time.Second, want: "lost failed",
			note: "its holder may still live for 4s", tick: "lost",
		},
		{name: "gone for long", record: lostRun(), want: "lost failed", tick: "lost"},
		{
			name: "the lease is another holder's", record: lostRun(), lease: &backends.Lease{Holder: "h2", Token: 6},
			want: "lost failed", tick: "lost",
		},
		{
			name: "the lease is another run of the same holder", record: lostRun(), lease: &backends.Lease{Holder: "h1", Token: 6},
			want: "lost failed", tick: "claimed",
		},
		{
			name: "stopped for want of its lease, with a command that says 0",
			record: changed(lostRun(), func(r *backends.Record) {
				r.Released, r.Ended, r.Tick.State = 5, 110_000, backends.Lost
				r.Runs[0].State, r.Runs[0].Exit, r.Runs[0].Ended = backends.Lost, 0, 110_000
			}),
			want: "lost failed", tick: "lost",
		},
		{
			name: "revoked by an operator: its end was not seen",
			record: changed(lostRun(), func(r *backends.Record) {
				r.Token, r.Holder, r.Tick.State = 9, bob, backends.Stopped
				r.Runs[0].State, r.Runs[0].Note = backends.Stopped, "broken by root on web9"
			}),
			wait: time.Second, want: "stopped failed", note: "broken by root on web9", tick: "stopped",
		},
		{name: "ended well", record: doneRun(), want: "done failed", tick: "done"},
		{
			name: "asked to stop", lease: lease,
			record: changed(lostRun(), func(r *backends.Record) {
				r.Break = &backends.BreakRequest{Token: 5, By: backends.Holder{User: "root", Host: "web9"}, Reason: "wrong input"}
			}),
			want: "running failed", note: "asked to stop by root on web9: wrong input", tick: "claimed",
		},
		{
			name: "a tick was passed over, and somebody may stand by for it", lease: lease,
			record: passed(lostRun()),
			want:   "running failed", tick: "claimed",
		},
		{
			name: "a tick was passed over, and the lease has just become free", now: 124_000,
			record: passed(doneRun()),
			want:   "done failed", tick: "done",
		},
		{name: "a tick was passed over for good", now: 126_000, record: passed(doneRun()), want: "missed done failed", tick: "done"},
		{
			name: "a tick was passed over, and the run in the way is lost", now: 151_000,
			record: passed(lostRun()),
			want:   "missed lost failed", tick: "lost",
		},
		{
			name: "a tick was passed over, and the holder of the run in the way may still live", now: 149_000,
			record: passed(lostRun()),
			want:   "lost failed", tick: "lost",
		},
	} {
		if c.now == 0 {
			c.now = 119_000
		}
		s := backends.Status{Record: c.record, Lease: c.lease, Wait: c.wait, Now: time.UnixMilli(c.now)}
		entries := historyOf(s)
		var states []string
		note := ""
		for i, e := range entries {
			states = append(states, e.State)
			if i == 0 && e.Note != nil {
				note = *e.Note
			}
		}
		if got := strings.Join(states, " "); got != c.want || note != c.note {
			t.Errorf("%s: %s, want %s; note %q", c.name, got, c.want, note)
		}
		j := describe("j", s, backends.Limits{})
		last := states[slices.IndexFunc(states, func(s string) bool { return s != "running" && s != "missed" })]
		if *j.TickState != c.tick || *j.LastState != last || last == "done" && *j.LastExit != 0 || last != "done" && last != "failed" && j.LastExit != nil {
			t.Errorf("%s: status says tick %s, last run %s; want %s, %s", c.name, *j.TickState, *j.LastState, c.tick, last)
		}
	}
}
