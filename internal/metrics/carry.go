package metrics

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parseOld reads the file of a job. It fails where that is not one that leaderrun wrote for this job: adding to
// numbers that mean something else would make lies.
func parseOld(in io.Reader, job string) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(in)
	switch {
	case err != nil:
		return nil, err
	case len(families) == 0:
		return nil, errors.New("it is empty")
	}
	known := definitions()
	for name, f := range families {
		d, ok := known[name]
		if !ok && strings.HasPrefix(name, "leaderrun_") { // of another version
			delete(families, name)
			continue
		}
		if !ok || f.GetType() != d.kind {
			return nil, fmt.Errorf("it has the %s %s", strings.ToLower(f.GetType().String()), name)
		}
		for _, m := range f.Metric {
			if err := check(d, m, label(job)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		f.Help = &d.help
	}
	return families, nil
}

// check says whether a series of a file is one of ours.
func check(d definition, m *dto.Metric, job string) error {
	want := d.labels
	if d.kind == dto.MetricType_HISTOGRAM {
		want = []string{"job"}
	}
	var names []string
	for _, l := range m.Label {
		names = append(names, l.GetName())
		if l.GetName() == "job" && l.GetValue() != job {
			return fmt.Errorf("it is about job %q", l.GetValue())
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		return fmt.Errorf("it has the labels %q", names)
	}
	values := []float64{m.GetCounter().GetValue(), m.GetGauge().GetValue(), m.GetHistogram().GetSampleSum()}
	if slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) || v < 0 }) {
		return errors.New("its value cannot be")
	}
	m.TimestampMs = nil
	return nil
}

// carryOver adds what earlier runs counted to what this one did. A gauge is the newest there is.
func carryOver(families []*dto.MetricFamily, old map[string]*dto.MetricFamily) []*dto.MetricFamily {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]*dto.MetricFamily{}
	}
	for _, f := range families {
		before := map[string]*dto.Metric{}
		for _, m := range old[f.GetName()].GetMetric() {
			before[signature(m)] = m
		}
		for _, m := range f.Metric {
			if b := before[signature(m)]; b != nil {
				addTo(m, b)
				delete(before, signature(m))
			}
		}
		f.Metric = slices.AppendSeq(f.Metric, maps.Values(before))
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return strings.Compare(signature(a), signature(b)) })
		all[f.GetName()] = f
	}
	// Most hosts skip most runs: dozens of series that say nothing would be most of what is stored.
	maps.DeleteFunc(all, func(_ string, f *dto.MetricFamily) bool {
		f.Metric = slices.DeleteFunc(f.Metric, func(m *dto.Metric) bool { return m.Histogram != nil && m.Histogram.GetSampleCount() == 0 })
		return len(f.Metric) == 0
	})
	return slices.SortedFunc(maps.Values(all), func(a, b *dto.MetricFamily) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
}

// signature tells the series of one metric apart.
func signature(m *dto.Metric) string {
	var parts []string
	for _, l := range m.Label {
		parts = append(parts, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// addTo adds an earlier value of the same series.
func addTo(m, before *dto.Metric) {
	switch {
	case m.Counter != nil:
		m.Counter.Value = new(m.Counter.GetValue() + before.GetCounter().GetValue())
	case m.Histogram != nil:
		addHistogram(m.Histogram, before.GetHistogram())
	}
}

// addHistogram adds bucket by bucket. Where an older version had other buckets, its numbers cannot be told by ours,
// and are dropped.
func addHistogram(h, before *dto.Histogram) {
	finite := slices.DeleteFunc(slices.Clone(before.Bucket), func(b *dto.Bucket) bool { return math.IsInf(b.GetUpperBound(), 1) })
	same := slices.EqualFunc(h.Bucket, finite, func(a, b *dto.Bucket) bool { return a.GetUpperBound() == b.GetUpperBound() })
	if !same {
		return
	}
	for i, b := range h.Bucket {
		b.CumulativeCount = new(b.GetCumulativeCount() + finite[i].GetCumulativeCount())
	}
	h.SampleCount = new(h.GetSampleCount() + before.GetSampleCount())
	h.SampleSum = new(h.GetSampleSum() + before.GetSampleSum())
}
