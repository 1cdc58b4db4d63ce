package main

import (
	"errors"
	"time"
)

// allCommand measures everything in about 13 minutes. The parts that a slow machine has no time for are left out, and
// named.
func allCommand(args []string) error {
	flags := newMeasuring("all", "flock and supercronic")
	limit := flags.Duration("limit", 13*time.Minute, "no part begins that would end after that")
	n := flags.Int("n", 100, "runs of each way to run `true`")
	handovers := flags.Int("handovers", 10, "handovers of each way to wait")
	ofMany := flags.Int("handovers-of-many", 5, "handovers of each way with each number of standbys")
	list := flags.String("sizes", "10,100,1000", "how many stand by")
	jobs := flags.String("jobs", "1000", "how many jobs are due at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	sizes, err := numbers(*list)
	if err != nil {
		return err
	}
	due, err := numbers(*jobs)
	if err != nil {
		return err
	}
	const oneSitting, oneTick = time.Minute, 270 * time.Second
	end := time.Now().Add(*limit)
	r := newReport()
	measure := func() error {
		b, err := makeBed(*flags.only)
		defer b.close()
		if err != nil {
			return err
		}
		if err := measureRuns(b, r, runPlan{n: *n, handovers: *handovers, footprints: 3, spans: 4}); err != nil {
			return err
		}
		return measureStandbys(b, r, standbysPlan{
			sizes: sizes, handovers: *ofMany, idle: 20 * time.Second, until: end.Add(-oneTick - oneSitting),
		})
	}
	err = measure()
	err = errors.Join(err, measureCron(r, cronPlan{sizes: due, ticks: 1, only: *flags.only, until: end.Add(-oneTick)}))
	return flags.present(r, err)
}
