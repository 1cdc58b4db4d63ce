package postgres

import (
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

// TestRoundTrips: on an open connection a claim is two, a refused one is one, and so are a renewal and an end (docs/design/benchmarks.md).
// The first claim after a start of the server writes the mark, too.
func TestRoundTrips(t *testing.T) {
	w := newWorld(t)
	p := servers.NewProxy(t, w.server.Addr())
	d := open(t, w.server.URLAt(p.Addr()))
	run := func() (trips []int) {
		last := p.Trips()
		note := func() { now := p.Trips(); trips = append(trips, now-last); last = now }
		g := w.Acquire(d, newSteady("job"))
		note()
		w.Renew(d, g)
		note()
		w.Renew(d, g)
		note()
		w.Refused(d, newSteady("job"), backends.Held)
		note()
		w.Finish(d, g)
		note()
		return trips
	}
	first := run()
	const connecting = 3 // what we want, and two of SCRAM
	if want := []int{connecting + 2, 1, 1, 1, 1}; !slices.Equal(first, want) {
		t.Errorf("round trips with a new connection: %v, want %v", first, want)
	}
	if trips, want := run(), []int{2, 1, 1, 1, 1}; !slices.Equal(trips, want) {
		t.Errorf("round trips of claim, two renewals, refused claim and end: %v, want %v", trips, want)
	}
	w.server.Do(t, "UPDATE leaderrun SET record = record::jsonb - 'longest' WHERE job = ''") // as after a start of the server
	if trips, want := run(), []int{3, 1, 1, 1, 1}; !slices.Equal(trips, want) {
		t.Errorf("round trips of a first claim, two renewals, refused claim and end: %v, want %v", trips, want)
	}
}
