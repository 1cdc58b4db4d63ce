package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// The measures of one wrapper.
const (
	wholeTime  = "whole"    // of a run of `true`
	gapTime    = "handover" // from the end of one run to the start of one that waits
	memoryUse  = "memory"   // beside a command that sleeps
	wakeupRate = "wakeups"  // beside a command that sleeps
)

// runPlan is how much is measured of one wrapper.
type runPlan struct {
	n, handovers, footprints, spans int
}

// restSpan holds two renewals.
const restSpan = 10 * time.Second

func runCommand(args []string) error {
	flags := newMeasuring("run", baseline)
	n := flags.Int("n", 200, "runs of each way to run `true`")
	handovers := flags.Int("handovers", 30, "handovers of each way to wait")
	footprints := flags.Int("footprints", 5, "looks at the memory of each way")
	spans := flags.Int("spans", 6, fmt.Sprintf("spans of %v in which wake-ups are counted", restSpan))
	beside := flags.String("beside", "", "another program of leaderrun, whose runs on file and Redis take turns with those of this one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := newReport()
	return flags.present(r, servers.Outside(func(t testing.TB) error {
		b, err := makeBed(t, *flags.only)
		if err == nil && *beside != "" {
			err = b.putBeside(*beside)
		}
		if err != nil {
			return err
		}
		return measureRuns(b, r, runPlan{n: *n, handovers: *handovers, footprints: *footprints, spans: *spans})
	}))
}

// measureRuns gives all ways their turns.
func measureRuns(b *bed, r *report, p runPlan) error {
	wrappers := slices.DeleteFunc(slices.Clone(b.ways), func(w way) bool { return w.run == nil })
	waiters := slices.DeleteFunc(slices.Clone(b.ways), func(w way) bool { return w.queue == nil })
	err := turns(p.n, b.ways, func(w way) error {
		d, err := spend(append(slices.Clone(w.run), "true"))
		return r.note(err, wholeTime, 0, "ms", w, ms(d))
	})
	if err != nil {
		return err
	}
	err = turns(p.handovers, waiters, func(w way) error {
		d, err := handover(b.dir, w.queue("bench"))
		return r.note(err, gapTime, 0, "ms", w, ms(d))
	})
	if err != nil {
		return err
	}
	err = turns(p.footprints, wrappers, func(w way) error {
		mb, err := footprint(w)
		return r.note(err, memoryUse, 0, "MB", w, mb)
	})
	if err != nil || p.spans == 0 {
		return err
	}
	wakeups, err := rest(wrappers, p.spans, restSpan)
	for i := range wakeups {
		r.add(wakeupRate, 0, "", wrappers[i], wakeups[i]...)
	}
	return err
}

// turns lets all ways do something in turns, n times.
func turns(n int, ways []way, do func(w way) error) error {
	for range n {
		for _, w := range ways {
			if err := do(w); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}
