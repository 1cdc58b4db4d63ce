package metrics

import (
	"maps"
	"slices"
	"strings"
)

// carryOver adds what earlier runs counted to what this one did. A gauge is the newest there is. The families are
// copies of their own.
func carryOver(families []*family, old map[string]*family) []*family {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]*family{}
	}
	for _, f := range families {
		if before := old[f.name]; before != nil {
			f.carry(before)
		}
		all[f.name] = f
	}
	// Most hosts skip most runs: dozens of series that say nothing would be most of what is stored.
	maps.DeleteFunc(all, func(_ string, f *family) bool {
		maps.DeleteFunc(f.series, func(_ string, s *series) bool { return f.kind == histogram && s.count == 0 })
		return len(f.series) == 0
	})
	return slices.SortedFunc(maps.Values(all), func(a, b *family) int { return strings.Compare(a.name, b.name) })
}

// carry adds the earlier values of the same metric. Where an older version had other buckets, its numbers cannot be told
// by ours, and are dropped.
func (f *family) carry(before *family) {
	if !slices.Equal(f.buckets, before.buckets) {
		return
	}
	for k, b := range before.series {
		s := f.series[k]
		switch {
		case s == nil:
			f.series[k] = b
		case f.kind == counter:
			s.value += b.value
		case f.kind == histogram:
			for i := range s.within {
				s.within[i] += b.within[i]
			}
			s.count += b.count
			s.sum += b.sum
		}
	}
}
