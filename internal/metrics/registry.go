package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Registry holds metrics until somebody reads them. Its methods may be called by several goroutines, and block no
// longer than it takes to write the page.
type Registry struct {
	mu       sync.Mutex
	families map[string]*family // by the name of the metric
	process  func() []*family   // what else there is to tell whenever somebody reads; nil: nothing
}

func newRegistry() *Registry { return &Registry{families: map[string]*family{}} }

// register adds a metric. It panics where there is one of that name already.
func (r *Registry) register(d definition) *family {
	if r.families[d.name] != nil {
		panic("metrics: " + d.name + " is there already")
	}
	f := newFamily(&r.mu, d)
	r.families[d.name] = f
	if d.kind == histogram && len(d.labels) == 0 { // it is shown before its first sample
		f.at()
	}
	return f
}

// gather returns copies of all metrics that have a series, sorted by their names.
func (r *Registry) gather() []*family {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.families)
	if r.process != nil {
		for _, f := range r.process() {
			all[f.name] = f
		}
	}
	var list []*family
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f := all[name]; len(f.series) > 0 {
			list = append(list, f.clone())
		}
	}
	return list
}

// family is one metric and its series.
type family struct {
	definition
	mu     *sync.Mutex
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

func newFamily(mu *sync.Mutex, d definition) *family {
	return &family{definition: d, mu: mu, series: map[string]*series{}}
}

// key tells the series of a metric apart. No label has the byte between two of them: it is no UTF-8.
func key(labels []string) string { return strings.Join(labels, "\xff") }

// at returns the series of some labels. It needs f.mu.
func (f *family) at(labels ...string) *series {
	s := f.series[key(labels)]
	if s == nil {
		s = &series{labels: labels, within: make([]uint64, len(f.buckets))}
		f.series[key(labels)] = s
	}
	return s
}

// add adds to a counter or gauge. Nothing added to a series that is not there yet makes it appear.
func (f *family) add(n float64, labels ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(labels...).value += n
}

// set sets a gauge.
func (f *family) set(n float64, labels ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(labels...).value = n
}

// observe adds a sample to a histogram.
func (f *family) observe(sample float64, labels ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.Index(f.labels, jobLabel)
	maps.DeleteFunc(f.series, func(_ string, s *series) bool { return at >= 0 && s.labels[at] == job })
}

// clone returns a copy that nobody else counts in. It needs f.mu.
func (f *family) clone() *family {
	c := newFamily(new(sync.Mutex), f.definition)
	for k, s := range f.series {
		one := *s
		one.within = slices.Clone(s.within)
		c.series[k] = &one
	}
	return c
}

// sorted returns the series in the order of their labels.
func (f *family) sorted() []*series {
	return slices.SortedFunc(maps.Values(f.series), func(a, b *series) int { return slices.Compare(a.labels, b.labels) })
}
