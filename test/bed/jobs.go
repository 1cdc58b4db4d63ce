package bed

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Cast says which jobs the hosts of a bed want.
type Cast string

const (
	// Whole are jobs of which one run goes on at a time.
	Whole Cast = ""
	// Divided are jobs with slots or shards, of which several go on at once, and hosts that come and go.
	Divided Cast = "divided"
)

// Casts are all of them.
var Casts = []Cast{Whole, Divided}

// String is the word for make bed.
func (c Cast) String() string {
	if c == Whole {
		return "whole"
	}
	return string(c)
}

// job is what every host of a bed wants all the time.
type job struct {
	name     string
	every    time.Duration // it is started at every multiple of this, as by cron; 0: soon after it has ended
	life     span          // of its command, unless that is ended
	stay     span          // how long a host wants it before it goes; 0: it stays
	away     span          // how long it is gone then
	stubborn bool
	options  func(chance *rand.Rand) []string
}

// span is a time that is drawn between two.
type span struct{ least, spread time.Duration }

func (s span) draw(chance *rand.Rand) time.Duration {
	if s.spread == 0 {
		return s.least
	}
	return s.least + time.Duration(chance.Int64N(int64(s.spread)))
}

// What the jobs of a bed are like. Those that stand by come to their end now and then, so that there are clean handovers too.
const (
	skipEvery   = 3 * time.Second
	rerunEvery  = 6 * time.Second
	shardsEvery = 8 * time.Second // several rounds on three hosts
	forever     = 24 * time.Hour
	pauseOfHost = 300 * time.Millisecond // before something that has ended is started again
)

// Each start of a job with slots draws their number, as if it were being changed host by host. Three hosts fill the fewest
// and leave one standing by.
const (
	fewestSlots = 2
	mostSlots   = 3
)

// The numbers of shards of a tick.
const (
	fewestShards = 4
	mostShards   = 5
)

// sharedShards is the number of shards of workers, on which all hosts must agree.
const sharedShards = 3

var (
	worker = job{name: JobWorker, life: span{4 * time.Second, 20 * time.Second}, stubborn: true, options: standby}

	wholeJobs = []job{
		worker,
		{name: JobSkip, every: skipEvery, life: span{least: 100 * time.Millisecond}, options: ticks(skipEvery)},
		{name: JobRerun, every: rerunEvery, life: span{least: 700 * time.Millisecond}, options: ticks(rerunEvery, again...)},
	}

	dividedJobs = []job{
		{
			name: JobSlots, life: span{4 * time.Second, 30 * time.Second}, stubborn: true, options: inSlots,
			stay: span{5 * time.Second, 40 * time.Second}, away: span{time.Second, 4 * time.Second},
		},
		{
			name: JobShards, life: span{10 * time.Second, 50 * time.Second}, stubborn: true, options: shared,
			stay: span{8 * time.Second, 50 * time.Second}, away: span{time.Second, 4 * time.Second},
		},
		{name: JobShardsSkip, every: shardsEvery, life: span{least: 200 * time.Millisecond}, options: inShards(ticks(shardsEvery))},
		{name: JobShardsRerun, every: shardsEvery, life: span{least: 1200 * time.Millisecond}, options: inShards(ticks(shardsEvery, again...))},
	}

	again = []string{"--on-lost", "rerun", "--max-attempts", "100000"}
)

func standby(*rand.Rand) []string { return []string{"--wait", "forever", "--backend-wait", "1h"} }

func inSlots(chance *rand.Rand) []string {
	n := fewestSlots + chance.IntN(mostSlots-fewestSlots+1)
	return append(standby(chance), "--slots", strconv.Itoa(n), "--kill-after", "1s")
}

// shared are workers that all hosts share evenly.
func shared(chance *rand.Rand) []string {
	return append(standby(chance), "--shards", strconv.Itoa(sharedShards), "--kill-after", "1s")
}

// inShards draws the number of shards as if it were being changed host by host, too, and how many are run at a time.
func inShards(options func(*rand.Rand) []string) func(*rand.Rand) []string {
	return func(chance *rand.Rand) []string {
		n := fewestShards + chance.IntN(mostShards-fewestShards+1)
		return append(options(chance), "--shards", strconv.Itoa(n), "--parallel", strconv.Itoa(1+chance.IntN(2)))
	}
}

func ticks(every time.Duration, more ...string) func(*rand.Rand) []string {
	return func(*rand.Rand) []string { return append([]string{"--every", every.String()}, more...) }
}

// jobs are those that the hosts of this bed want.
func (b *Bed) jobs() []job {
	switch {
	case !b.Way.Ticks:
		return []job{worker}
	case b.Cast == Divided:
		return dividedJobs
	}
	return wholeJobs
}

// standing are the jobs of the bed that somebody always waits for.
func (b *Bed) standing() []string {
	var names []string
	for _, j := range b.jobs() {
		if stands(j.name) {
			names = append(names, j.name)
		}
	}
	return names
}

// preys are those whose runs faults hit: one at a time, by chance.
func (b *Bed) preys() []string {
	var names []string
	for _, j := range b.jobs() {
		if stands(j.name) || inParts(j.name) {
			names = append(names, j.name)
		}
	}
	return names
}

// ticking are its other jobs.
func (b *Bed) ticking() []string {
	var names []string
	for _, j := range b.jobs() {
		if !slices.Contains(b.standing(), j.name) {
			names = append(names, j.name)
		}
	}
	return names
}
