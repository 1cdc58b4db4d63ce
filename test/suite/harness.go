// Package suite is the conformance suite that every driver passes, against the real store.
package suite

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Harness is one running store, as a driver's test hands it to Run. The functions act as an operator or a
// fault would; one that is nil does not exist for this store, or is tried elsewhere, and Lacks says which.
type Harness struct {
	// Open returns a new client of the store. Run closes it.
	Open func(t testing.TB) backends.Backend
	// TTL is the shortest lease worth testing with: expiry is waited for in real time.
	TTL time.Duration
	// Settle is how long a store may still refuse a new job after it forgot everything (quarantine).
	Settle time.Duration

	// Expire makes the lease of a job end as if its holder had died: nobody renews it, its descriptors are
	// closed. nil: waiting for the TTL does it.
	Expire func(t testing.TB, g backends.Grant)
	// DeleteLease removes the job's lease and leaves its record.
	DeleteLease func(t testing.TB, job string)
	// DeleteRecord removes the job's record and leaves its lease.
	DeleteRecord func(t testing.TB, job string)
	// Empty makes the store forget everything, while it runs.
	Empty func(t testing.TB)
	// Restart restarts the store with its data; RestartEmpty without.
	Restart, RestartEmpty func(t testing.TB)
	// Change changes the job's record: its Break and its Form are what tests change.
	Change func(t testing.TB, job string, change func(r *backends.Record))
	// Stall freezes the store (SIGSTOP, say): requests are neither answered nor refused until resume is
	// called. It may be called twice.
	Stall func(t testing.TB) (resume func())

	// Again says that the driver passes the whole suite on another store of its kind, and passes it here for what is
	// different: cases that gain by repetition are shorter.
	Again bool

	// Lacks says why a function is nil, by its name: so no case is left out in silence. Expire needs no reason.
	Lacks map[string]string
}

// WithBreak gives a record an operator's request to stop.
func WithBreak(b backends.BreakRequest) func(*backends.Record) {
	return func(r *backends.Record) { r.Break = &b }
}

// times is how often something is repeated that finds the more the longer it goes on.
func (h Harness) times(n int) int {
	if h.Again {
		return n / 4
	}
	return n
}

// function is what a harness may lack.
type function struct {
	name string
	in   func(h Harness) bool
}

var (
	hasDeleteLease  = &function{"DeleteLease", func(h Harness) bool { return h.DeleteLease != nil }}
	hasDeleteRecord = &function{"DeleteRecord", func(h Harness) bool { return h.DeleteRecord != nil }}
	hasChange       = &function{"Change", func(h Harness) bool { return h.Change != nil }}
	hasStall        = &function{"Stall", func(h Harness) bool { return h.Stall != nil }}
	hasRestart      = &function{"Restart", func(h Harness) bool { return h.Restart != nil }}
	hasEmpty        = &function{"Empty", func(h Harness) bool { return h.Empty != nil }}
	hasRestartEmpty = &function{"RestartEmpty", func(h Harness) bool { return h.RestartEmpty != nil }}

	// comesBetween needs no function: others write between the Read and the Swap of a request, unless Lacks says why not.
	comesBetween = &function{"Between", func(h Harness) bool { return h.Lacks["Between"] == "" }}

	functions = []*function{
		hasDeleteLease, hasDeleteRecord, hasChange, hasStall, hasRestart, hasEmpty, hasRestartEmpty,
		comesBetween,
	}
)

// gaps tells what a harness lacks without a reason, and which reasons are for nothing.
func (h Harness) gaps() []string {
	var gaps []string
	reasons := maps.Clone(h.Lacks)
	for _, f := range functions {
		why, excused := h.Lacks[f.name]
		delete(reasons, f.name)
		switch {
		case f.in(h) && excused:
			gaps = append(gaps, fmt.Sprintf("%s is there, though Lacks says why it is not: %s", f.name, why))
		case !f.in(h) && why == "":
			gaps = append(gaps, fmt.Sprintf("%s is not there, and Lacks does not say why", f.name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		gaps = append(gaps, fmt.Sprintf("Lacks says why there is no %s, which nothing needs", name))
	}
	return gaps
}

// Opener returns the Open of a Harness.
func Opener[D backends.Backend](open func(url string) (D, error), url string) func(t testing.TB) backends.Backend {
	return func(t testing.TB) backends.Backend {
		t.Helper()
		return opened(t, open, url)
	}
}

// Open returns a client that is closed when the test ends.
func Open[D backends.Backend](t testing.TB, open func(url string) (D, error), url string) D {
	t.Helper()
	d := opened(t, open, url)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func opened[D backends.Backend](t testing.TB, open func(url string) (D, error), url string) D {
	t.Helper()
	d, err := open(url)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Main is TestMain for a driver whose tests each start a server: they wait more than they work. -parallel on the command
// line still counts.
func Main(m *testing.M) {
	flag.Parse()
	parallel := "4"
	if testing.Short() { // few of them
		parallel = "8"
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(parallel); err != nil {
			panic(err)
		}
	}
	m.Run()
}
