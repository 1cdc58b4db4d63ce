package bed

import "time"

// Fault is something that can happen to a bed.
type Fault struct {
	Name string
	// Excused: design and docs/guarantees.md say that runs may overlap; the fenced ledger must hold all the same.
	Excused bool
	// Kills: the holder's tree has to be dead before the lease has run out.
	Kills bool
	// OnServer: it happens to the store, not to a host. While it goes on, no other fault does.
	OnServer bool
	// Forgets: the store may lose records, or go back to older ones, so that ticks run again.
	Forgets bool
	// Back: it may lose records while its clock goes back as well, so that tokens do, too.
	Back bool
	// OneRun: of a wrapper with several runs it hits one, and the wrapper itself may go on with the others.
	OneRun bool
	// Whole: it hits all that runs on the host.
	Whole bool
	// Network: it needs a network between host and store, which a file has not.
	Network bool
	// Once: it is over when it has happened; else it goes on until it is mended.
	Once bool
	// AtLeast is how long it has to go on to mean anything; 0: any time.
	AtLeast time.Duration
	// Peers: it can happen to a bed of a peer as well, which has no guardian.
	Peers bool
	// Strike lets it happen to the victim and returns what mends it; nil: nothing has to be mended. An error says that it
	// could not happen now (the process had just ended), and is no failure.
	Strike func(b *Bed, v Victim) (mend func() error, err error)
}

// Victim is whom a fault hits.
type Victim struct {
	Host string
	// The run on that host, if there is one, and its processes.
	Run      *Span
	Wrapper  int    // pid
	Guardian int    // pid; 0: none, as with a peer
	Lease    string // of the run, or of the newest of the job elsewhere; "": there is none
}
