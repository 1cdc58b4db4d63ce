package jobfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
)

// Job is one job: what runs, when, and how.
type Job struct {
	Name     string // valid UTF-8, 1 to 255 bytes
	Place    string // FILE:LINE of the name or line
	Schedule *schedule.Schedule
	Argv     []string // at least one word; of a line for a shell it is the shell, -c and the line
	Stdin    string   // what the command reads; "": nothing
	Env      []string // NAME=VALUE, of which the last of a name counts: they replace inherited ones. Shared with other jobs, to be read only
	Dir      string   // where the command starts, absolute; "": where the daemon was started, or the home of User
	User     string   // who it runs as, by the column of a system crontab; "": the daemon's user
	Timeline runner.Timeline
	Options
}

// Options are those of a job that both kinds of file can have, from a key or from the caller's Defaults.
type Options struct {
	TTL   time.Duration // of the lease
	Grace time.Duration // from SIGTERM to SIGKILL when the lease is being lost; negative: what fits

	KillAfter     time.Duration // from SIGTERM to SIGKILL when the run is ended for another reason; 0: never
	Timeout       time.Duration // ends the command; 0: none
	StartDeadline time.Duration // a tick that is later than this is not started; 0: none
	BackendWait   time.Duration // how long to go on while the store cannot be reached
	Jitter        time.Duration // a run starts up to that much later; shorter than the time between two ticks
	Retries       int           // how often a command that failed runs again, same lease and tick
	RetryDelay    time.Duration // the pause before
	OnLost        backends.Policy
	MaxAttempts   int // how often Rerun starts one tick; at least 1
	CatchUp       int // how many ticks that nobody ran are made up for; 0 to 1000
	Overlap       Overlap
	Shards        int    // into how many shards a tick's work is divided; 0: it is not
	Parallel      int    // how many shards are run on one host at a time; at least 1
	Prefix        string // put before every line of output; "": none
}

// Overlap says what becomes of a tick whose time comes while an earlier run of the job goes on.
type Overlap string

// The ways to overlap.
const (
	Forbid  Overlap = "forbid"  // the tick is missed
	Wait    Overlap = "wait"    // it runs after the earlier one
	Replace Overlap = "replace" // the earlier run is stopped
)

// Defaults are what counts for a job that does not say otherwise. `defaults:` of a YAML file comes before them.
type Defaults struct {
	Timezone string   // a name of the IANA database; "": the host's
	Env      []string // NAME=VALUE
	Dir      string   // of the jobs of a YAML file, absolute or ""
	Home     string   // where the commands of a crontab that sets no HOME start, absolute or ""
	Options
}

// NewDefaults returns those of the documentation. Home is the caller's variable HOME.
func NewDefaults() Defaults {
	d := Defaults{Options: Options{
		TTL: runner.DefaultTTL, Grace: -1, BackendWait: time.Minute, RetryDelay: 10 * time.Second,
		OnLost: backends.Skip, MaxAttempts: 3, Overlap: Forbid, Parallel: 1,
	}}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		d.Home = home
	}
	return d
}

// Fingerprint identifies everything of a job but its place: a reload leaves a job alone whose fingerprint did not
// change. It means nothing to another version of the program.
func (j *Job) Fingerprint() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q %q %q %q %q ", j.Name, j.Schedule, j.Schedule.Fingerprint(), j.Argv, j.Stdin, j.variables(), j.Dir, j.User)
	fmt.Fprintf(sum, "%#v %#v", j.Timeline, j.Options)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// variables are those of Env that count, sorted.
func (j *Job) variables() []string {
	values := map[string]string{}
	for _, entry := range j.Env {
		name, _, _ := strings.Cut(entry, "=")
		values[name] = entry
	}
	return slices.Sorted(maps.Values(values))
}
