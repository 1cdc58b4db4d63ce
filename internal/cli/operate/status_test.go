package operate

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func TestStatusOfAJob(t *testing.T) {
	holder := backends.Holder{ID: "h1", Host: "web1", PID: 7, User: "app"}
	record := backends.Record{
		Job: "j", Token: 5, Holder: holder, TTL: 15000, Granted: 1000,
		Tick: backends.Occurrence{Tick: 60, State: backends.Claimed, Claimant: holder},
		Runs: []backends.Run{{Token: 5, State: backends.Claimed}, {Token: 4, State: backends.Failed, Exit: 3, Ended: 900}},
	}
	released := record
	released.Released = 5
	for _, c := range []struct {
		name      string
		status    backends.Status
		state     string
		host      string
		tickState string
	}{
		{"running", backends.Status{Record: record, Lease: &backends.Lease{Holder: "h1", Token: 5, Left: time.Second}}, stateRunning, "web1", "claimed"},
		{"another holder runs", backends.Status{Record: record, Lease: &backends.Lease{Holder: "h2", Token: 6}}, stateRunning, "", "lost"},
		{"vanished", backends.Status{Record: record, Wait: time.Second}, stateVanished, "web1", "lost"},
		{"gone for long", backends.Status{Record: record}, stateFree, "", "lost"},
		{"quarantined", backends.Status{Record: released, Wait: time.Second}, stateQuarantined, "", "lost"},
	} {
		j := describe("j", c.status, backends.Limits{ExpiryLag: func(time.Duration) time.Duration { return time.Second }})
		host := ""
		if j.Host != nil {
			host = *j.Host
		}
		if j.State != c.state || host != c.host || *j.TickState != c.tickState || j.TakeOver != 16000 {
			t.Errorf("%s: %+v", c.name, j)
		}
	}
}
