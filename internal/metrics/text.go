package metrics

import (
	"bytes"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// textOf writes metrics as Prometheus and a node exporter read them, in the order of their names. Those without a series are left out.
func textOf(families []*family) ([]byte, error) {
	var text bytes.Buffer
	for _, f := range slices.SortedFunc(slices.Values(families), func(a, b *family) int { return strings.Compare(a.name, b.name) }) {
		if len(f.series) == 0 {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&text, f.message()); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// familiesOf reads what textOf has written.
func familiesOf(text []byte) ([]*family, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	messages, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var families []*family
	for _, m := range messages {
		families = append(families, familyOf(m))
	}
	return families, nil
}

// message is a metric as expfmt takes it. It shares the numbers with f.
func (f *family) message() *dto.MetricFamily {
	m := &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind}
	for _, s := range f.sorted() {
		m.Metric = append(m.Metric, f.sample(s))
	}
	return m
}

func (f *family) sample(s *series) *dto.Metric {
	m := &dto.Metric{}
	for i := range f.labels {
		m.Label = append(m.Label, &dto.LabelPair{Name: &f.labels[i], Value: &s.labels[i]})
	}
	switch f.kind {
	case counter:
		m.Counter = &dto.Counter{Value: &s.value}
	case gauge:
		m.Gauge = &dto.Gauge{Value: &s.value}
	case histogram:
		m.Histogram = &dto.Histogram{SampleCount: &s.count, SampleSum: &s.sum}
		for i := range s.within {
			m.Histogram.Bucket = append(m.Histogram.Bucket, &dto.Bucket{UpperBound: &f.buckets[i], CumulativeCount: &s.within[i]})
		}
	}
	return m
}

// familyOf is the inverse of message. A series that is unlike the first, and what leaderrun does not write, are left out.
func familyOf(m *dto.MetricFamily) *family {
	f := newFamily(definition{name: m.GetName(), kind: m.GetType(), help: m.GetHelp()})
	first := m.GetMetric()[0] // there is one: the parser drops a metric without
	for _, l := range first.GetLabel() {
		f.labels = append(f.labels, l.GetName())
	}
	for _, b := range bucketsOf(first) {
		f.buckets = append(f.buckets, b.GetUpperBound())
	}
	for _, one := range m.GetMetric() {
		if s := seriesOf(one); len(s.labels) == len(f.labels) && len(s.within) == len(f.buckets) {
			f.series[key(s.labels)] = s
		}
	}
	return f
}

func seriesOf(m *dto.Metric) *series {
	s := &series{
		value: m.GetCounter().GetValue() + m.GetGauge().GetValue(), // one of them is not there
		count: m.GetHistogram().GetSampleCount(), sum: m.GetHistogram().GetSampleSum(),
	}
	for _, l := range m.GetLabel() {
		s.labels = append(s.labels, l.GetValue())
	}
	for _, b := range bucketsOf(m) {
		s.within = append(s.within, b.GetCumulativeCount())
	}
	return s
}

// bucketsOf are the buckets of a histogram without the last, +Inf, which expfmt writes by itself.
func bucketsOf(m *dto.Metric) []*dto.Bucket {
	all := m.GetHistogram().GetBucket()
	return all[:max(len(all)-1, 0)]
}
