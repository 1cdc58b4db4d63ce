package model

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// Result is what the exploration of a variant found.
type Result struct {
	States   int
	Took     time.Duration
	Violated string   // the property; "": it holds in every state up to the horizon
	Trace    []string // the shortest way there
	Complete bool     // false: there are more states than the limit, or one that violates
}

// visited is the set of the states that were met, by 128 bits of each.
type visited struct {
	seeds [2]maphash.Seed
	set   map[[2]uint64]struct{}
}

// meet notes a state, and says whether it is new.
func (v *visited) meet(s *state) bool {
	id := [2]uint64{maphash.Comparable(v.seeds[0], *s), maphash.Comparable(v.seeds[1], *s)}
	if _, ok := v.set[id]; ok {
		return false
	}
	v.set[id] = struct{}{}
	return true
}

// step is how a state was reached: from which, and by which of the moves that are possible there.
type step struct {
	from uint32
	move uint16
}

// explore visits every state of a variant, breadth first, so that the first violation has a shortest trace. It stops
// there, or where there are more states than limit.
func explore(v *variant, limit int) Result {
	m := newModel(v)
	began := time.Now()
	seen := visited{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, set: map[[2]uint64]struct{}{}}
	first := m.begin()
	seen.meet(&first)
	steps := []step{{}}
	result := func(broken string, at uint32, last int) Result {
		r := Result{States: len(steps), Took: time.Since(began), Violated: broken, Complete: broken == "" && len(steps) <= limit}
		if broken != "" {
			r.Trace = m.trace(steps, at, last)
		}
		return r
	}
	level, number := []state{first}, uint32(0)
	for len(level) > 0 {
		var next []state
		for i := range level {
			if m.liveness {
				if broken := m.starved(&level[i]); broken != "" {
					return result(broken, number, -1)
				}
			}
			m.successors(&level[i])
			for k := range m.moves {
				mv := &m.moves[k]
				if mv.broken != "" {
					return result(mv.broken, number, k)
				}
				if seen.meet(&mv.to) {
					next = append(next, mv.to)
					steps = append(steps, step{number, uint16(k)})
				}
			}
			number++
		}
		if len(steps) > limit {
			break
		}
		level = next
	}
	return result("", 0, -1)
}

// trace describes the way to a state and, unless last is -1, one more move.
func (m *model) trace(steps []step, at uint32, last int) []string {
	var way []int
	if last >= 0 {
		way = append(way, last)
	}
	for n := at; n != 0; n = steps[n].from {
		way = append(way, int(steps[n].move))
	}
	m.words = true
	defer func() { m.words = false }()
	s := m.begin()
	var text []string
	for _, k := range slices.Backward(way) {
		m.successors(&s)
		mv := m.moves[k]
		if mv.text != "" {
			text = append(text, "at "+s.now.String()+" "+mv.text)
		}
		s = mv.to
	}
	return text
}

// String says what was found, in plain words.
func (r Result) String() string {
	switch {
	case r.Violated != "":
		return "VIOLATED: " + r.Violated + "\n\t" + strings.Join(r.Trace, "\n\t")
	case !r.Complete:
		return "no violation, stopped at the limit"
	}
	return "HOLDS"
}
