package metrics

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"
)

// official is the same metric in a registry of the Prometheus client, the oracle of what we write.
type official struct {
	add, set, observe func(n float64, labels ...string)
	forget            func(job string)
}

func newOfficial(r *prometheus.Registry, d definition) official {
	switch d.kind {
	case counter:
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
		r.MustRegister(c)
		return official{
			add:    func(n float64, labels ...string) { c.WithLabelValues(labels...).Add(n) },
			forget: func(job string) { c.DeletePartialMatch(prometheus.Labels{jobLabel: job}) },
		}
	case gauge:
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labels)
		r.MustRegister(g)
		return official{
			add:    func(n float64, labels ...string) { g.WithLabelValues(labels...).Add(n) },
			set:    func(n float64, labels ...string) { g.WithLabelValues(labels...).Set(n) },
			forget: func(job string) { g.DeletePartialMatch(prometheus.Labels{jobLabel: job}) },
		}
	}
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: d.buckets}, d.labels)
	r.MustRegister(h)
	if len(d.labels) == 0 {
		h.WithLabelValues()
	}
	return official{
		observe: func(n float64, labels ...string) { h.WithLabelValues(labels...).Observe(n) },
		forget:  func(job string) { h.DeletePartialMatch(prometheus.Labels{jobLabel: job}) },
	}
}

func officialText(t rapid.TB, r *prometheus.Registry) string {
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// Whatever is counted, our page is byte by byte the one that the Prometheus client writes: order, escapes, numbers,
// buckets.
func TestPagesAreThoseOfThePrometheusClient(t *testing.T) {
	help := "A \\ help\nwith \"all\" there is."
	bounds := []float64{-1, 0, 0.0025, 1, 1e6, 1e21}
	all := []definition{
		{name: "a_total", kind: counter, help: help, labels: []string{jobLabel, "outcome"}},
		{name: "b", kind: gauge, help: "", labels: []string{jobLabel}},
		{name: "c_seconds", kind: histogram, help: help, buckets: bounds},
		{name: "d_seconds", kind: histogram, help: help, buckets: bounds, labels: []string{jobLabel}},
	}
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "a b", `a"`, `a\`, "a\n", `a",outcome="b`, "é", "\uFFFD"}), rapid.StringN(0, 5, -1),
	)
	number := rapid.OneOf(rapid.SampledFrom(append([]float64{
		math.Inf(1), math.Inf(-1), math.NaN(), 1e20, 1e21, 123456789, 1.5e-9,
	}, bounds...)), rapid.Float64())
	rapid.Check(t, func(t *rapid.T) {
		ours, theirs := newRegistry(), prometheus.NewRegistry()
		families, oracles := map[string]*family{}, map[string]official{}
		for _, d := range all {
			families[d.name], oracles[d.name] = ours.register(d), newOfficial(theirs, d)
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			d := rapid.SampledFrom(all).Draw(t, "metric")
			var labels []string
			for range d.labels {
				labels = append(labels, label(word.Draw(t, "label")))
			}
			f, o, n := families[d.name], oracles[d.name], number.Draw(t, "number")+0 // the client writes -0 as 0
			switch {
			case len(labels) > 0 && rapid.IntRange(0, 9).Draw(t, "forget") == 0:
				f.forget(labels[0])
				o.forget(labels[0])
			case d.kind == counter:
				n = math.Abs(math.Trunc(n))
				if math.IsNaN(n) || math.IsInf(n, 0) { // the client refuses it
					n = 1
				}
				f.add(n, labels...)
				o.add(n, labels...)
			case d.kind == histogram:
				f.observe(n, labels...)
				o.observe(n, labels...)
			case rapid.Bool().Draw(t, "set"):
				f.set(n, labels...)
				o.set(n, labels...)
			default:
				f.add(n, labels...)
				o.add(n, labels...)
			}
		}
		if diff := cmp.Diff(officialText(t, theirs), string(textOf(ours.gather()))); diff != "" {
			t.Fatalf("theirs (-), ours (+):\n%s", diff)
		}
	})
}

// What a run has written, the next one reads, whatever the job is called and has counted.
func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := rapid.OneOf(rapid.SampledFrom([]string{`a",job="b`, "a\n", `\`, "a}", "{", "é\xff"}), rapid.StringN(1, 9, -1)).Draw(t, "job")
		f := NewTextfile("", job)
		for range rapid.IntRange(0, 5).Draw(t, "samples") {
			f.duration(rapid.Float64Range(0, 1e6).Draw(t, "seconds"))
		}
		f.runs.add(float64(rapid.IntRange(0, 1<<53).Draw(t, "runs")), label(job), done)
		f.lastExit.set(float64(rapid.IntRange(0, 255).Draw(t, "code")), label(job))
		want := string(textOf(carryOver(f.registry.gather(), nil)))
		old, err := parseOld(strings.NewReader(want), job)
		if err != nil {
			t.Fatalf("%v:\n%s", err, want)
		}
		if diff := cmp.Diff(want, string(textOf(carryOver(nil, old)))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A file that is not ours is refused or understood, whatever it holds; what was understood is written so that a node
// exporter takes it.
func FuzzParseOld(f *testing.F) {
	f.Add("# HELP leaderrun_leading x\n# TYPE leaderrun_leading gauge\nleaderrun_leading{job=\"job\"} 1 1700000000000\n")
	f.Add("# TYPE leaderrun_renewal_seconds histogram\nleaderrun_renewal_seconds_bucket{job=\"job\",le=\"1\"} 5\n" +
		"leaderrun_renewal_seconds_sum{job=\"job\"} 9\nleaderrun_renewal_seconds_count{job=\"job\"} 5\n")
	f.Add("# TYPE leaderrun_runs_total counter\nleaderrun_runs_total{outcome=\"\\\\\\\"\\n\",job=\"job\"} 1e3\n")
	f.Fuzz(func(t *testing.T, text string) {
		old, err := parseOld(strings.NewReader(text), "job")
		if err != nil {
			return
		}
		written := textOf(carryOver(nil, old))
		parser := expfmt.NewTextParser(validation)
		if _, err := parser.TextToMetricFamilies(bytes.NewReader(written)); err != nil {
			t.Errorf("%v:\n%s\nfrom:\n%s", err, written, text)
		}
	})
}

func TestAPageIsPackedForWhoAsks(t *testing.T) {
	r := newRegistry()
	New(r).Forget("nobody")
	for _, packed := range []bool{false, true} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		if packed {
			request.Header.Set("Accept-Encoding", "deflate, gzip;q=0.5")
		}
		answer := httptest.NewRecorder()
		Handler(r).ServeHTTP(answer, request)
		var body io.Reader = answer.Body
		if got := answer.Header().Get("Content-Encoding"); packed != (got == "gzip") {
			t.Errorf("encoding %q", got)
		}
		if packed {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil || !bytes.Equal(text, textOf(r.gather())) {
			t.Errorf("packed %v: %q, %v", packed, text, err)
		}
		format := expfmt.ResponseFormat(answer.Header())
		if format.FormatType() != expfmt.TypeTextPlain {
			t.Errorf("Prometheus takes %q for %q", answer.Header().Get("Content-Type"), format)
		}
	}
}
