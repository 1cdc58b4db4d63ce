package bed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what one or several logs of a store showed.
type Report struct {
	Store      string             `json:"store"`
	Way        string             `json:"way"`
	Cast       Cast               `json:"cast,omitempty"`
	TTL        time.Duration      `json:"ttl_ns"`
	Seeds      []uint64           `json:"seeds"`
	Time       time.Duration      `json:"time_ns"`
	Runs       int                `json:"runs"`
	Ticks      int                `json:"ticks"` // that were run at least once
	Faults     int                `json:"faults"`
	Violations []Violation        `json:"violations,omitempty"` // of a peer: none, as it promises nothing
	Overlaps   Overlaps           `json:"overlaps"`
	Ledger     Ledger             `json:"ledger"` // of all jobs
	Margins    map[string]Margins `json:"margins"`
	Takeovers  map[string]Times   `json:"takeovers_ns"` // by fault; a bed ends a peer's runs itself
}

// Violation is a promise that was not kept.
type Violation struct {
	Invariant string        `json:"invariant"`
	At        time.Duration `json:"at_ns"` // from the beginning of the log
	Text      string        `json:"text"`
	Runs      []string      `json:"runs,omitempty"`
	Blows     []string      `json:"blows,omitempty"` // that went on, or had ended less than two TTLs ago, or hit one of the runs
	Command   string        `json:"command"`         // makes it happen again, as far as chance lets it
}

// Overlaps counts pairs of runs of a job that were alive together.
type Overlaps struct {
	Count    int           `json:"count"`
	Excused  int           `json:"excused"` // of them
	Longest  time.Duration `json:"longest_ns"`
	Together time.Duration `json:"together_ns"` // the longest time in which there were always two, whichever
}

// String is a violation for whoever has to find out how it could happen.
func (v Violation) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s at %d ms: %s\n", v.Invariant, v.At.Milliseconds(), v.Text)
	for _, r := range v.Runs {
		fmt.Fprintf(&s, "  run:   %s\n", r)
	}
	for _, b := range v.Blows {
		fmt.Fprintf(&s, "  blow:  %s\n", b)
	}
	fmt.Fprintf(&s, "  again: %s\n", v.Command)
	return s.String()
}

// Merge puts reports of the same store, way, cast and TTL together, and orders them by these.
func Merge(reports []Report) []Report {
	type key struct {
		way, store string
		cast       Cast
		ttl        time.Duration
	}
	merged := map[key]Report{}
	for _, r := range reports {
		k := key{r.Way, r.Store, r.Cast, r.TTL}
		if former, ok := merged[k]; ok {
			r = former.plus(r)
		}
		merged[k] = r
	}
	return slices.SortedFunc(maps.Values(merged), func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Way, b.Way), cmp.Compare(a.Cast, b.Cast), cmp.Compare(a.TTL, b.TTL))
	})
}

func (r Report) plus(more Report) Report {
	r.Seeds = slices.Concat(r.Seeds, more.Seeds)
	r.Time += more.Time
	r.Runs += more.Runs
	r.Ticks += more.Ticks
	r.Faults += more.Faults
	r.Violations = slices.Concat(r.Violations, more.Violations)
	r.Overlaps = r.Overlaps.plus(more.Overlaps)
	r.Ledger = r.Ledger.plus(more.Ledger)
	r.Margins, r.Takeovers = maps.Clone(r.Margins), maps.Clone(r.Takeovers)
	for job, m := range more.Margins {
		r.Margins = set(r.Margins, job, r.Margins[job].plus(m))
	}
	for fault, times := range more.Takeovers {
		r.Takeovers = set(r.Takeovers, fault, r.Takeovers[fault].plus(times...))
	}
	return r
}

func set[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

func (o Overlaps) plus(more Overlaps) Overlaps {
	return Overlaps{
		Count: o.Count + more.Count, Excused: o.Excused + more.Excused,
		Longest: max(o.Longest, more.Longest), Together: max(o.Together, more.Together),
	}
}

func (l Ledger) plus(more Ledger) Ledger {
	return Ledger{
		Writes: l.Writes + more.Writes, StaleUnfenced: l.StaleUnfenced + more.StaleUnfenced,
		Refused: l.Refused + more.Refused, StaleFenced: l.StaleFenced + more.StaleFenced,
	}
}
