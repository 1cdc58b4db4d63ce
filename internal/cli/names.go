package cli

import (
	"github.com/leaderrun/leaderrun/internal/shards"
)

// Names of jobs that nobody has made.
const (
	DoctorJob  = "leaderrun doctor" // on which the doctor tries what a run does
	ReadyProbe = "leaderrun cron"   // which may or may not be there: what is asked about it shows that a backend answers
)

// IsInternal says whether a job is in no list: the doctor's own, which nobody has made, and the places of those who share the shards of a
// job.
func IsInternal(job string) bool {
	_, isMembers := shards.IsMembers(job)
	return job == DoctorJob || isMembers
}
