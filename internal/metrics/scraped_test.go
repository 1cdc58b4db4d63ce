package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// value returns what a gatherer has of a series: the value, or how many samples a histogram has. absent where
// there is none.
func value(t *testing.T, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() != name || labelsIn(m) != strings.Join(labels, ",") {
				continue
			}
			if m.Histogram != nil {
				return float64(m.Histogram.GetSampleCount())
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return absent
}

const absent = -1

// labelsIn are the labels of a series.
func labelsIn(m *dto.Metric) string {
	var parts []string
	for _, l := range m.Label {
		parts = append(parts, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	return strings.Join(parts, ",")
}

// validation is how names were checked before Prometheus 3, which ours all pass.
const validation = model.LegacyValidation

// scraped is a registry as Prometheus sees it: what it writes, read by the official parser.
type scraped struct{ *Registry }

func newScraped() scraped { return scraped{newRegistry()} }

func (s scraped) Gather() ([]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(textOf(s.gather())))
	return slices.Collect(maps.Values(families)), err
}

func expect(t *testing.T, g prometheus.Gatherer, want float64, name string, labels ...string) {
	t.Helper()
	if got := value(t, g, name, labels...); got != want {
		t.Errorf("%s{%s} is %v, want %v", name, strings.Join(labels, ","), got, want)
	}
}

func histogramOf(t *testing.T, g prometheus.Gatherer, name string) *dto.Histogram {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return families[i].Metric[0].Histogram
}
