package metrics

import dto "github.com/prometheus/client_model/go"

// definition is one metric as docs/metrics.md has it. The help texts are part of the contract: a node exporter
// wants those of one metric to be the same in all files.
type definition struct {
	name    string
	kind    dto.MetricType
	help    string
	labels  []string  // sorted
	buckets []float64 // of a histogram: upper bounds
}

const (
	counter   = dto.MetricType_COUNTER
	gauge     = dto.MetricType_GAUGE
	histogram = dto.MetricType_HISTOGRAM
)

// metric is one of leaderrun's own.
type metric int

const (
	runs metric = iota
	duration
	lateness
	leaderChanges
	election
	renewal
	renewalLeft
	renewalFailures
	ticksLost
	ticksMissed
	lastTick
	lastSuccess
	lastExit
	leading // the last: files do not have it
)

const jobLabel = "job"

var perJob = []string{jobLabel}

// Histograms are for all jobs of a process together: one for each of ten thousand jobs would be too much for
// who stores them. Files are of one job each, and their histograms have its label.
var definitions = [...]definition{
	runs: {
		"leaderrun_runs_total", counter,
		"Attempts to run a job on this host, by what became of them.",
		[]string{jobLabel, "outcome"},
		nil,
	},
	duration: {
		"leaderrun_run_duration_seconds", histogram, "How long the command ran.", nil,
		[]float64{0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400},
	},
	lateness: {
		"leaderrun_start_lateness_seconds", histogram, "From the tick to the start of its command.", nil,
		[]float64{0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600},
	},
	leaderChanges: {"leaderrun_leader_changes_total", counter, "How often this host became the leader of a job.", perJob, nil},
	election: {
		"leaderrun_election_seconds", histogram, "From the first claim to the grant, with the time spent standing by.", nil,
		[]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 15, 60},
	},
	renewal: {
		"leaderrun_renewal_seconds", histogram, "How long the backend took to answer a renewal.", nil,
		[]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5},
	},
	renewalLeft: {
		"leaderrun_renewal_left_seconds", histogram, "How much of the lease was left when a renewal was answered.", nil,
		[]float64{0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 60},
	},
	renewalFailures: {"leaderrun_renewal_failures_total", counter, "Renewals that failed or stayed without an answer.", perJob, nil},
	ticksLost: {
		"leaderrun_ticks_lost_total", counter,
		"Ticks and keys that a claim of this host found lost: their run never reported its end.", perJob, nil,
	},
	ticksMissed: {
		"leaderrun_ticks_missed_total", counter,
		"Ticks that a claim of this host found missed: nobody could start them in time.", perJob, nil,
	},
	lastTick:    {"leaderrun_last_tick_timestamp_seconds", gauge, "The last tick that this host made an attempt for.", perJob, nil},
	lastSuccess: {"leaderrun_last_success_timestamp_seconds", gauge, "When a run of the job last ended well on this host.", perJob, nil},
	lastExit:    {"leaderrun_last_run_exit_code", gauge, "The exit code of the command that ran last on this host.", perJob, nil},
	leading:     {"leaderrun_leading", gauge, "Whether this host leads the job now, or is still ending its run.", perJob, nil},
}
