// Package slots makes several leases of one job: up to a number of its runs go on at once, each in a slot of its own.
//
// Slot 3 of the job "worker" is the job "worker#3" of the store, with its own lease, record and token. So neither the decisions
// nor the stores know of slots. Two runs in one slot are as impossible as two runs of one job, even if hosts have different numbers
// of slots. This package adds the search for a free slot (Driver).
package slots

import (
	"strconv"
	"strings"
)

// Most is the largest number of slots that a job can have.
const Most = 10_000

// mark stands between the name of a job and the number of a slot.
const mark = "#"

// Name returns the name that a slot has in the store.
func Name(job string, slot int) string { return job + mark + strconv.Itoa(slot) }

// Split takes the name of a slot apart. ok is false for the name of any other job.
func Split(name string) (job string, slot int, ok bool) {
	i := strings.LastIndex(name, mark)
	if i < 0 {
		return "", 0, false
	}
	job = name[:i]
	slot, err := strconv.Atoi(name[i+len(mark):])
	if err != nil || job == "" || slot < 0 || slot >= Most || Name(job, slot) != name { // a sign, or a zero before the number
		return "", 0, false
	}
	return job, slot, true
}

// Whole is the job whose slot or shard a name is, or the name itself.
func Whole(name string) string {
	if job, _, isPart := Split(name); isPart {
		return job
	}
	return name
}
