package metrics

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// family is one metric and its series. It is for one goroutine at a time.
type family struct {
	definition
	series map[string]*series // by key
}

// series is what was counted for one combination of the values of a metric's labels.
type series struct {
	labels []string // their values, in the order of the metric's labels
	value  float64  // of a counter or gauge

	// Of a histogram.
	within []uint64 // how many samples were not above a bound, by bound
	count  uint64
	sum    float64
}

func newFamily(d definition) *family { return &family{definition: d, series: map[string]*series{}} }

// key tells the series of a metric apart. No label has the byte between two of them: it is no UTF-8.
func key(labels []string) string { return strings.Join(labels, "\xff") }

// at returns the series of some labels.
func (f *family) at(labels ...string) *series {
	s := f.series[key(labels)]
	if s == nil {
		s = &series{labels: labels, within: make([]uint64, len(f.buckets))}
		f.series[key(labels)] = s
	}
	return s
}

// observe adds a sample to a histogram.
func (f *family) observe(sample float64, labels ...string) {
	s := f.at(labels...)
	for i, bound := range f.buckets {
		if sample <= bound {
			s.within[i]++
		}
	}
	s.count++
	s.sum += sample
}

// forget drops the series of a job.
func (f *family) forget(job string) {
	maps.DeleteFunc(f.series, func(_ string, s *series) bool { return len(s.labels) > 0 && s.labels[0] == job })
}

// goesOn says whether old can be what earlier runs of a job counted for the same metric.
func (f *family) goesOn(old *family, job string) bool {
	if old.kind != f.kind || !slices.Equal(old.labels, f.labels) {
		return false
	}
	for _, s := range old.series {
		n := s.value + s.sum // one of them is zero
		rises := slices.IsSorted(append(slices.Clip(s.within), s.count))
		if s.labels[0] != job || !(n >= 0) || math.IsInf(n, 1) || !rises {
			return false
		}
	}
	return true
}

// carry adds the earlier values of the same metric. A gauge is the newest there is. Where an older version had other buckets, its
// numbers cannot be told by ours, and are dropped.
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

// sorted returns the series in the order of their labels.
func (f *family) sorted() []*series {
	return slices.SortedFunc(maps.Values(f.series), func(a, b *series) int { return slices.Compare(a.labels, b.labels) })
}
