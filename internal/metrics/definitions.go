package metrics

// kind is a metric's type as the text format names it.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// definition is one metric as docs/metrics.md has it. The help texts are part of the contract: a node exporter
// wants those of one metric to be the same in all files.
type definition struct {
	name    string
	kind    kind
	help    string
	labels  []string  // sorted
	buckets []float64 // of a histogram: upper bounds
}

// Histograms are for all jobs of a process together: one for each of ten thousand jobs would be too much for
// who stores them.
var (
	runs = definition{
		name: "leaderrun_runs_total", kind: counter, labels: []string{jobLabel, "outcome"},
		help: "Attempts to run a job on this host, by what became of them.",
	}
	duration = definition{
		name: "leaderrun_run_duration_seconds", kind: histogram,
		help:    "How long the command ran.",
		buckets: []float64{0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400},
	}
	lateness = definition{
		name: "leaderrun_start_lateness_seconds", kind: histogram,
		help:    "From the tick to the start of its command.",
		buckets: []float64{0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600},
	}
	leaderChanges = definition{
		name: "leaderrun_leader_changes_total", kind: counter, labels: []string{jobLabel},
		help: "How often this host became the leader of a job.",
	}
	election = definition{
		name: "leaderrun_election_seconds", kind: histogram,
		help:    "From the first claim to the grant, with the time spent standing by.",
		buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 15, 60},
	}
	renewal = definition{
		name: "leaderrun_renewal_seconds", kind: histogram,
		help:    "How long the backend took to answer a renewal.",
		buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5},
	}
	renewalLeft = definition{
		name: "leaderrun_renewal_left_seconds", kind: histogram,
		help:    "How much of the lease was left when a renewal was answered.",
		buckets: []float64{0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 60},
	}
	renewalFailures = definition{
		name: "leaderrun_renewal_failures_total", kind: counter, labels: []string{jobLabel},
		help: "Renewals that failed or stayed without an answer.",
	}
	ticksLost = definition{
		name: "leaderrun_ticks_lost_total", kind: counter, labels: []string{jobLabel},
		help: "Ticks and keys that a claim of this host found lost: their run never reported its end.",
	}
	ticksMissed = definition{
		name: "leaderrun_ticks_missed_total", kind: counter, labels: []string{jobLabel},
		help: "Ticks that a claim of this host found missed: nobody could start them in time.",
	}
	lastTick = definition{
		name: "leaderrun_last_tick_timestamp_seconds", kind: gauge, labels: []string{jobLabel},
		help: "The last tick that this host made an attempt for.",
	}
	lastSuccess = definition{
		name: "leaderrun_last_success_timestamp_seconds", kind: gauge, labels: []string{jobLabel},
		help: "When a run of the job last ended well on this host.",
	}
	lastExit = definition{
		name: "leaderrun_last_run_exit_code", kind: gauge, labels: []string{jobLabel},
		help: "The exit code of the command that ran last on this host.",
	}
	leading = definition{
		name: "leaderrun_leading", kind: gauge, labels: []string{jobLabel},
		help: "Whether this host leads the job now, or is still ending its run.",
	}
)

// definitions returns all of them, by name.
func definitions() map[string]definition {
	all := map[string]definition{}
	for _, d := range []definition{
		runs, duration, lateness, leaderChanges, election, renewal, renewalLeft, renewalFailures,
		ticksLost, ticksMissed, lastTick, lastSuccess, lastExit, leading,
	} {
		all[d.name] = d
	}
	return all
}

// ofJob is a histogram of one job.
func (d definition) ofJob() definition {
	d.labels = []string{jobLabel}
	return d
}

const jobLabel = "job"
