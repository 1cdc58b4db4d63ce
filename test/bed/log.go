package bed

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// Log is what happened on a bed. All instants are of one kernel's clock.
type Log struct {
	Store string // redis, sentinel, etcd, etcd3, ...
	Way   string // leaderrun, or the peer that stood in its place
	Cast  Cast   // the jobs that the hosts wanted
	TTL   time.Duration
	Seed  uint64
	Began boottime.Instant
	Ended boottime.Instant
	// Asked is the length that the bed was asked for: with the seed it makes the same happen again. 0: Ended - Began.
	Asked time.Duration
	// Quarantine is how long the store waits after something happened to it before it grants anything: longest-ttl of a
	// Redis. 0: it does not.
	Quarantine time.Duration
	Spans      []Span
	Ends       []End
	Faults     []Blow
	Ledgers    map[string]Ledger // by job, or by slot or shard
}

// Jobs of a bed.
const (
	JobWorker = "worker" // one run as long as possible: stubborn, with a child and an orphan in a session of its own
	JobSkip   = "skip"   // a tick every few seconds, at most once
	JobRerun  = "rerun"  // a tick every few seconds, again until it came to its end
	JobSlots  = "slots"  // a run in each slot, as long as possible: as stubborn as the worker

	JobShards      = "shards"       // a run for each shard, as long as possible, shared evenly among the hosts: as stubborn as the worker
	JobShardsSkip  = "shards-skip"  // as JobSkip, each tick divided into shards
	JobShardsRerun = "shards-rerun" // as JobRerun, each tick divided into shards
)

// stands says whether somebody always waits for the lease of a job, so that a run soon follows another.
func stands(job string) bool { return job == JobWorker || job == JobSlots || job == JobShards }

// skips and reruns say what becomes of a tick of a job whose run was lost.
func skips(job string) bool  { return job == JobSkip || job == JobShardsSkip }
func reruns(job string) bool { return job == JobRerun || job == JobShardsRerun }

// inParts says whether each tick of a job is divided into shards.
func inParts(job string) bool { return job == JobShardsSkip || job == JobShardsRerun }

// Span is the life of one process of a run.
type Span = beats.Span

// End is one wrapper from its start to its end.
type End struct {
	Job, Host    string
	PID          int
	Began, Ended boottime.Instant // Ended 0: killed by the bed when all was over
	Code         int              // as a shell shows it
	Tick         int64            // that it was started for; 0: none, or not known
	Said         string           // the end of its output
}

// Blow is one fault that was struck.
type Blow struct {
	Fault   string
	Excused bool   // the promise does not cover it: the fenced ledger is the judge
	Where   string // the host or server
	Struck  boottime.Instant
	Landed  boottime.Instant // when it had happened for certain; 0: when it was struck
	Mending boottime.Instant // when its mending began: from here on it may be over; 0: when it was mended
	Mended  boottime.Instant // 0: nothing to mend
	Alone   bool             // no other fault went on, nor had just ended
	Token   int64            // of the run that it was meant for; 0: there was none
	Run     string
	Wrapper int
	// Kills says that the tree must be dead soon although nobody asks it to end: wrapper or guardian is gone, stopped or cut off.
	Kills bool
	// OnServer says that it happened to the store and not to a host.
	OnServer bool
	// OneRun says that of the wrapper's runs it hit that one only.
	OneRun bool
	// Whole says that it hit all that ran on the host, and not only the run and wrapper that are named here.
	Whole bool
	// Forgets says that the store may have lost records, or gone back to older ones: ticks may run again.
	Forgets bool
	// Back says that the store may have lost records while its clock, or the hosts', went back as well: so may tokens.
	Back bool
}

// Ledger is what the runs of a job, or of one of its slots or shards, wrote to two files. Stale is a write by a run after a later one had written.
type Ledger struct {
	Writes        int `json:"writes"`         // tried
	StaleUnfenced int `json:"stale_unfenced"` // into the ledger that takes everything
	Refused       int `json:"refused"`        // by the ledger that compares tokens
	StaleFenced   int `json:"stale_fenced"`   // accepted by it all the same: must be none
}
