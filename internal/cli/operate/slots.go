package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// expand returns the names under which the store keeps what an operator calls a job: its own, and those of its slots in order.
func expand(ctx context.Context, store backends.Backend, job string) ([]string, error) {
	names, _, err := namesOf(ctx, store, job)
	return names, err
}

// namesOf returns the same, and the names of the places of those who share the job's shards, or did so.
// Slot 0 is the first that anybody takes, and with workers place 0. So the jobs of the store are not gone through for a job that has
// neither; but for one that is unknown, because the store may have lost slot 0 alone.
func namesOf(ctx context.Context, store backends.Backend, job string) (own, places []string, err error) {
	if _, _, isSlot := slots.Split(job); isSlot {
		return []string{job}, nil, nil
	}
	only := false // there is a job of this name, and nothing else
	for _, name := range []string{slots.Name(job, 0), slots.Name(shards.Members(job), 0), job} {
		err = ofRecord(ctx, store, name, cli.Patiently(ctx, func(ctx context.Context) error {
			_, err := store.Inspect(ctx, name)
			return err
		}))
		if !errors.Is(err, backends.ErrUnknownJob) {
			only = name == job
			break
		}
	}
	switch {
	case err != nil && !backends.IsAnswer(err):
		return nil, nil, cli.Asked(err)
	case only:
		return []string{job}, nil, nil
	}
	all, err := jobsOf(ctx, store)
	if err != nil && len(all) == 0 {
		return nil, nil, cli.Asked(err)
	}
	if own = slotsAmong(all, job); len(own) == 0 { // hosts have come, and have not begun yet
		own = []string{job}
	}
	return own, slotsAmong(all, shards.Members(job)), nil
}

// numbersOf returns the number of the slot or shard that a job of the store is; nil where it is none. The record tells which.
func numbersOf(name string, r backends.Record) (slot, shard *int) {
	_, n, ok := slots.Split(name)
	switch {
	case !ok:
		return nil, nil
	case isPart(r):
		return nil, &n
	}
	return &n, nil
}

// isPart says whether a job of the store is a part of a divided one, by its last run or by a tick that was never started.
func isPart(r backends.Record) bool { return r.Parts > 0 || r.Tick.Parts > 0 }

// jobsOf returns the names of all jobs; beside an error, those that can be read.
func jobsOf(ctx context.Context, store backends.Backend) (names []string, err error) {
	err = cli.Patiently(ctx, func(ctx context.Context) error {
		names, err = store.Jobs(ctx)
		return err
	})
	return names, err
}

// slotsAmong returns a job, if it is among the names, and its slots in order.
func slotsAmong(names []string, job string) []string {
	number := func(name string) int {
		if of, slot, ok := slots.Split(name); ok && of == job {
			return slot
		}
		return -1
	}
	own := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != job && number(name) < 0 })
	slices.SortFunc(own, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return own
}

// inSlotOrder puts slot 10 of a job after slot 9, and leaves the order of the rest as it is.
func inSlotOrder(names []string) {
	slices.SortStableFunc(names, func(a, b string) int {
		jobA, slotA, okA := slots.Split(a)
		jobB, slotB, okB := slots.Split(b)
		if okA && okB && jobA == jobB {
			return cmp.Compare(slotA, slotB)
		}
		return cmp.Compare(a, b)
	})
}
