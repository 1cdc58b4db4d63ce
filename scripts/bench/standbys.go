package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The measures of many that stand by for one job.
const (
	crowdGap      = "standbys handover"
	crowdRequests = "standbys requests"          // per minute, while nothing happens
	crowdHerd     = "standbys handover requests" // of one handover
	crowdHerdCPU  = "standbys handover cpu"
	crowdMemory   = "standbys memory"
	crowdWakeups  = "standbys wakeups" // of each, per minute
	crowdCPU      = "standbys cpu"     // of all, per minute
)

// together is the size up to which the crowds of all ways stand by at the same time: handovers take turns. Larger ones
// would be in each other's way, and take more memory than there is.
const together = 100

// standbysPlan is how much is measured of standbys.
type standbysPlan struct {
	sizes     []int
	handovers int
	idle      time.Duration
	until     time.Time // no sitting begins later
}

func standbysCommand(args []string) error {
	flags := newMeasuring("standbys", baseline)
	list := flags.String("sizes", "10,100,1000", "how many stand by; several numbers are measured one after the other")
	handovers := flags.Int("handovers", 10, "handovers of each way with each size")
	idle := flags.Duration("idle", 30*time.Second, "how long to look at them while nothing happens")
	if err := flags.Parse(args); err != nil {
		return err
	}
	sizes, err := numbers(*list)
	if err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	r := newReport()
	b, err := makeBed(*flags.only)
	defer b.close()
	if err == nil {
		err = measureStandbys(b, r, standbysPlan{sizes: sizes, handovers: *handovers, idle: *idle})
	}
	return flags.present(r, err)
}

// numbers reads a list of positive numbers.
func numbers(list string) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no such number", word)
		}
		all = append(all, n)
	}
	return all, nil
}

// measureStandbys measures one size after the other. It goes on after a sitting that failed.
func measureStandbys(b *bed, r *report, p standbysPlan) (err error) {
	ways := slices.DeleteFunc(slices.Clone(b.ways), func(w way) bool { return w.queue == nil })
	each := map[string]float64{} // MB that one standby takes, by way
	for _, size := range p.sizes {
		sittings := [][]way{ways}
		if size > together {
			sittings = slices.Collect(slices.Chunk(ways, 1))
		}
		for _, sitting := range sittings {
			if !p.until.IsZero() && time.Now().After(p.until) {
				leaveOut(r, sitting, size, "not measured for want of time")
				continue
			}
			one := sit(b, r, p, withRoom(r, sitting, size, each), size, each)
			switch {
			case one == nil:
			case len(sitting) == 1 && !sitting[0].own: // so many may be too much for a peer
				fmt.Printf("%d standbys: %v\n", size, one)
				leaveOut(r, sitting, size, "could not")
			default:
				err = errors.Join(err, fmt.Errorf("%d standbys: %w", size, one))
			}
		}
	}
	return err
}

// withRoom leaves out those that would take more than half of the memory that there is.
func withRoom(r *report, ways []way, size int, each map[string]float64) (fit []way) {
	room := meminfo("MemAvailable") / 2
	for _, w := range ways {
		need := each[w.name] * float64(size)
		if need > room {
			leaveOut(r, []way{w}, size, fmt.Sprintf("would take %.0f GB", need/1024))
			continue
		}
		room -= need
		fit = append(fit, w)
	}
	return fit
}

func leaveOut(r *report, ways []way, size int, why string) {
	for _, w := range ways {
		fmt.Printf("%s, %d standbys: %s\n", w.name, size, why)
		r.of(crowdGap, size, "ms", w).Note = why
		r.of(crowdMemory, size, "MB", w).Note = why
	}
}

// sit gathers a crowd of each way, looks at them while nothing happens, and lets them hand over in turns.
func sit(b *bed, r *report, p standbysPlan, ways []way, size int, each map[string]float64) (err error) {
	crowds := map[string]*crowd{}
	defer func() {
		for _, c := range crowds {
			err = errors.Join(err, c.dismiss())
		}
	}()
	for _, w := range ways {
		c, err := gather(b.dir, w, size)
		crowds[w.name] = c
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	time.Sleep(settleTime)
	if err := lookAtAll(crowds, p.idle); err != nil {
		return err
	}
	for _, w := range ways {
		c := crowds[w.name]
		each[w.name] = c.idle.memory / float64(size)
		if w.server != nil {
			r.add(crowdRequests, size, "", w, c.idle.requests)
		}
		r.add(crowdMemory, size, "MB", w, c.idle.memory)
		r.add(crowdWakeups, size, "", w, c.idle.wakeups)
		r.add(crowdCPU, size, "ms", w, c.idle.cpu)
	}
	return turns(p.handovers, ways, func(w way) error {
		h, err := crowds[w.name].handover()
		if err != nil {
			return err
		}
		r.add(crowdGap, size, "ms", w, ms(h.gap))
		if w.server != nil {
			r.add(crowdHerd, size, "", w, h.requests)
		}
		r.add(crowdHerdCPU, size, "ms", w, h.cpu)
		return nil
	})
}

// lookAtAll looks at all crowds at the same time while nothing happens.
func lookAtAll(crowds map[string]*crowd, span time.Duration) error {
	looked := make(chan error)
	for _, c := range crowds {
		go func() { looked <- c.stand(span) }()
	}
	var err error
	for range crowds {
		err = errors.Join(err, <-looked)
	}
	return err
}
