package backends

import (
	"context"
	"net"
	"os"
	"time"
)

// AskLimit is how long an examination waits for one answer of one host.
const AskLimit = 5 * time.Second

// Limited asks for one thing, for no longer than AskLimit: a server that is frozen is something to tell, and not to wait for.
func Limited[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, AskLimit)
	defer cancel()
	return ask(ctx)
}

// IsLocal says whether an address, HOST:PORT, is this host's, as far as it shows. What is none is the path of a socket.
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
	grade := Bad
	for _, a := range all {
		if a.Err == nil {
			grade = Warning
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
