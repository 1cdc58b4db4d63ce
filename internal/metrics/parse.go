package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// errForm is of what leaderrun does not write.
var errForm = errors.New("it is not in the form that leaderrun writes")

// The form of a sample, and of its labels. They are made when they are needed: most runs have no file.
func sampleForm() *regexp.Regexp { return regexp.MustCompile(`^(\w+)\{(.*)\} (\S+)$`) }
func labelForm() *regexp.Regexp  { return regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`) }

// parseOld reads the file of a job. It fails where that is not one that leaderrun wrote for this job: adding to
// numbers that mean something else would make lies. So what was read must be what stands there once it is written again.
// Comments, among them the help texts, and the metrics of another version are passed over.
func parseOld(in io.Reader, job string) (map[string]*family, error) {
	text, err := io.ReadAll(in)
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return nil, errors.New("it is empty")
	case text[len(text)-1] != '\n':
		return nil, errors.New("its last line is not whole")
	}
	r := &reader{
		job: label(job), sample: sampleForm(), label: labelForm(),
		known: definitions(), families: map[string]*family{}, lines: map[string][]byte{},
	}
	for line := range strings.Lines(string(text)) {
		if err := r.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, err
		}
	}
	if r.name == "" {
		return nil, errForm
	}
	for name, f := range r.families {
		if !bytes.Equal(f.samples(), r.lines[name]) || !f.rises() {
			return nil, fmt.Errorf("%s: %w", name, errForm)
		}
	}
	return r.families, nil
}

// reader reads a file line by line.
type reader struct {
	job           string
	sample, label *regexp.Regexp
	known         map[string]definition
	name          string             // of the metric whose samples follow; "": no type was told yet
	families      map[string]*family // by name; those of another version are missing
	lines         map[string][]byte  // the samples as they stand, by name
}

func (r *reader) line(line string) error {
	rest, isType := strings.CutPrefix(line, "# TYPE ")
	switch {
	case isType:
		name, k, _ := strings.Cut(rest, " ")
		return r.begin(name, kind(k))
	case line == "" || line[0] == '#':
		return nil
	case r.name == "" || !strings.HasPrefix(line, r.name):
		return fmt.Errorf("it has %s, without a type", line)
	case r.families[r.name] == nil:
		return nil
	}
	r.lines[r.name] = append(append(r.lines[r.name], line...), '\n')
	if err := r.take(r.families[r.name], line); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// begin takes the line that tells the type of a metric, which comes before its samples.
func (r *reader) begin(name string, k kind) error {
	d, ok := r.known[name]
	switch {
	case r.families[name] != nil:
		return fmt.Errorf("it has %s twice", name)
	case !ok && !strings.HasPrefix(name, "leaderrun_") || ok && d.kind != k:
		return fmt.Errorf("it has the %s %s", k, name)
	}
	r.name = name
	if k == histogram {
		d = d.ofJob()
		d.buckets = nil // those of the file
	}
	if ok {
		r.families[name] = newFamily(new(sync.Mutex), d)
	}
	return nil
}

// take adds a sample. Whether its names are right shows when it is written again.
func (r *reader) take(f *family, line string) error {
	part := r.sample.FindStringSubmatch(line)
	if part == nil {
		return errForm
	}
	value, err := strconv.ParseFloat(part[3], 64)
	if err != nil || !(value >= 0) || math.IsInf(value, 0) {
		return errors.New("its value cannot be")
	}
	var labels []string
	bound := math.Inf(1)
	for _, pair := range r.label.FindAllStringSubmatch(part[2], -1) {
		text, err := strconv.Unquote(pair[2])
		switch {
		case err != nil:
			return errForm
		case pair[1] == boundLabel:
			if bound, err = strconv.ParseFloat(text, 64); err != nil {
				return errForm
			}
			continue
		case pair[1] == jobLabel && text != r.job:
			return fmt.Errorf("it is about job %q", text)
		}
		labels = append(labels, text)
	}
	if len(labels) != len(f.labels) || labels[slices.Index(f.labels, jobLabel)] != r.job {
		return fmt.Errorf("it has the labels %s", part[2])
	}
	switch s := f.at(labels...); strings.TrimPrefix(part[1], f.name) {
	case "":
		s.value = value
	case "_sum":
		s.sum = value
	case "_count":
		s.count = uint64(value)
	case "_bucket":
		if !math.IsInf(bound, 1) {
			f.buckets, s.within = append(f.buckets, bound), append(s.within, uint64(value))
		}
	}
	return nil
}

// rises says whether the buckets of a histogram rise, and each has all of the one before.
func (f *family) rises() bool {
	for _, s := range f.series {
		if !slices.IsSorted(f.buckets) || !slices.IsSorted(s.within) || len(s.within) > 0 && s.within[len(s.within)-1] > s.count {
			return false
		}
	}
	return true
}
