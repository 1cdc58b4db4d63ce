package metrics

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// contentType is the text format's, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Handler serves what a registry holds.
func Handler(r *Registry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		text := textOf(r.gather())
		w.Header().Set("Content-Type", contentType)
		out := io.Writer(w)
		if strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") { // thousands of jobs are megabytes
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			defer packed.Close()
			out = packed
		}
		_, _ = out.Write(text) // there is nobody to tell
	})
}

// textOf writes metrics as Prometheus and a node exporter read them.
func textOf(families []*family) []byte {
	var text bytes.Buffer
	for _, f := range families {
		text.WriteString("# HELP " + f.name + " " + inHelp().Replace(f.help) + "\n")
		text.WriteString("# TYPE " + f.name + " " + string(f.kind) + "\n")
		text.Write(f.samples())
	}
	return text.Bytes()
}

// samples writes the series of a metric.
func (f *family) samples() []byte {
	var text bytes.Buffer
	for _, s := range f.sorted() {
		f.write(&text, s)
	}
	return text.Bytes()
}

func (f *family) write(text *bytes.Buffer, s *series) {
	labels := f.pairs(s)
	if f.kind != histogram {
		writeSample(text, f.name, labels, s.value)
		return
	}
	for i, bound := range f.buckets {
		writeSample(text, f.name+"_bucket", append(labels, boundLabel+`="`+number(bound)+`"`), float64(s.within[i]))
	}
	writeSample(text, f.name+"_bucket", append(labels, boundLabel+`="+Inf"`), float64(s.count))
	writeSample(text, f.name+"_sum", labels, s.sum)
	writeSample(text, f.name+"_count", labels, float64(s.count))
}

// boundLabel is the label of a bucket's upper bound.
const boundLabel = "le"

// pairs are the labels of a series, with their values.
func (f *family) pairs(s *series) []string {
	pairs := make([]string, 0, len(f.labels)+1)
	for i, name := range f.labels {
		pairs = append(pairs, name+`="`+inLabel().Replace(s.labels[i])+`"`)
	}
	return pairs
}

func writeSample(text *bytes.Buffer, name string, pairs []string, value float64) {
	text.WriteString(name)
	if len(pairs) > 0 {
		text.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	text.WriteString(" " + number(value) + "\n")
}

// number also writes what is none: NaN, +Inf and -Inf.
func number(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

// The characters that the format escapes, in a help text and in the value of a label.
func inHelp() *strings.Replacer  { return strings.NewReplacer(`\`, `\\`, "\n", `\n`) }
func inLabel() *strings.Replacer { return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`) }
