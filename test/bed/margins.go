package bed

import (
	"slices"
	"time"
)

// Times are durations from the shortest to the longest.
type Times []time.Duration

// Percentile is what p of a hundred are not above (the nearest rank); 0 of none.
func (t Times) Percentile(p int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[max(0, (len(t)*p+99)/100-1)]
}

// Median is the 50th percentile.
func (t Times) Median() time.Duration { return t.Percentile(50) }

func (t Times) plus(more ...time.Duration) Times {
	all := slices.Concat(t, more)
	slices.Sort(all)
	return all
}

// Margins are how long nobody ran between two successive runs of a job, or in a slot or shard: from the last beat of one to the first of the next.
// Below 0 they overlapped. Those that were excused are left out.
type Margins struct {
	Clean Times `json:"clean_ns"` // after a run that came to its end by itself
	Fault Times `json:"fault_ns"` // after one that did not
}

func (m Margins) plus(more Margins) Margins {
	return Margins{Clean: m.Clean.plus(more.Clean...), Fault: m.Fault.plus(more.Fault...)}
}

// margins are I4, by job. That none is below 0 is I1; how far they are from it is worth knowing.
func (t *trial) margins() map[string]Margins {
	all := map[string]Margins{}
	for _, lease := range t.leases {
		var m Margins
		job := t.runs[lease][0].job
		for i, r := range t.runs[lease] {
			if i == 0 {
				continue
			}
			former := t.runs[lease][i-1]
			margin := r.first.Sub(former.last)
			switch {
			case margin <= 0 && t.excused(between(former, r)):
			case former.over():
				m.Clean = append(m.Clean, margin)
			default:
				m.Fault = append(m.Fault, margin)
			}
		}
		all[job] = all[job].plus(m)
	}
	return all
}
