package checkup

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// AskLimit is how long an examination waits for one answer of one host.
const AskLimit = 5 * time.Second

// Limited asks for one thing, for no longer than AskLimit: a server that is frozen is something to tell, and not to wait for.
func Limited[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, AskLimit)
	defer cancel()
	return ask(ctx)
}

// AskAll asks all hosts at once, each for no longer than AskLimit, and returns what they say in their order.
func AskAll[T any](ctx context.Context, hosts []string, ask func(ctx context.Context, host string) T) []T {
	all := make([]T, len(hosts))
	var asked sync.WaitGroup
	for i, host := range hosts {
		asked.Go(func() {
			defer panics.Catch()
			ctx, cancel := context.WithTimeout(ctx, AskLimit)
			defer cancel()
			all[i] = ask(ctx, host)
		})
	}
	asked.Wait()
	return all
}

// Trip is how long a question and its answer took.
type Trip struct {
	Took time.Duration
	half time.Time // half of that after the question, by our clock
}

// AskTwice asks twice, and measures the second time: the first one includes what a new connection costs.
func AskTwice[T any](ask func() (T, error)) (said T, trip Trip, err error) {
	for range 2 {
		sent := time.Now()
		if said, err = ask(); err != nil {
			return said, trip, err
		}
		trip.Took = time.Since(sent)
		trip.half = sent.Add(trip.Took / 2)
	}
	return said, trip, nil
}

func (t Trip) String() string { return "answers within " + t.Took.Round(10*time.Microsecond).String() }

// Offset returns how far a clock that the answer showed is ahead of ours.
func (t Trip) Offset(clock time.Time) time.Duration { return clock.Sub(t.half) }

// Date judges the clock of a store that shows whole seconds, in the header of an answer over HTTP. Zero: it shows none.
func (f *Findings) Date(whose string, date time.Time, trip Trip) {
	const half = time.Second / 2 // what is cut off is up to a second
	if !date.IsZero() {
		f.Offset(whose, trip.Offset(date.Add(half)), half+trip.Took/2)
	}
}

// LongestTTL warns of hosts that allow TTLs of different lengths, where the store remembers the longest that it has seen, in ms.
func (f *Findings) LongestTTL(here time.Duration, seen int64) {
	if kept := time.Duration(seen) * time.Millisecond; kept > here {
		f.Warn("longest-ttl", "give ?longest-ttl= the same value on every host",
			"%v here, and %v was seen: the longer one is how long a quarantine lasts", here, kept)
	}
}

// IsLocal says whether an address, HOST:PORT, is this host's, as far as it shows. Any other text is the path of a socket, which is local.
func IsLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
}

// Answer is what came of asking one host of a backend URL.
type Answer struct {
	Fine   string // what is told of a host that is of use
	Err    error  // why it is of none, with its name; nil: it is
	Remedy string // for Err, unless that has a hint of its own
}

// Hosts tells of all hosts of a backend URL. One that is of no use is worth a look as long as another one is of use; where
// none is, the store cannot be asked.
func (f *Findings) Hosts(all []Answer) {
	grade := backends.Bad
	for _, a := range all {
		if a.Err == nil {
			grade = backends.Warning
		}
	}
	for _, a := range all {
		if a.Err == nil {
			f.Fine(Reachable, "%s", a.Fine)
			continue
		}
		f.add(grade, Reachable, remedyOf(a.Err, a.Remedy), "%v", a.Err)
	}
}

// Quorum tells how many of the n servers that decide by majority may fail, and whether the URL names them all.
func (f *Findings) Quorum(what string, n, named int) {
	switch {
	case n < 2:
		f.Warn(what, "run three", "one: while it is down nothing runs")
	case named < n:
		f.Warn(what, "name them all: a run goes on as long as one of those named can be reached", "the URL names %d of %d", named, n)
	case n%2 == 0:
		f.Warn(what, "run an odd number", "%d, which bear no more failures than %d", n, n-1)
	default:
		f.Fine(what, "%d, of which %d may fail", n, (n-1)/2)
	}
}

// Readable warns of a file with a secret that everybody on this host can read. "": there is no file.
func (f *Findings) Readable(what, secret, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o004 != 0 {
		f.Warn(what, "chmod o-r "+file, "everybody can read the %s in %s", secret, file)
	}
}
