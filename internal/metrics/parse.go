package metrics

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// errForm is a line that leaderrun does not write.
var errForm = errors.New("it is not in the form that leaderrun writes")

// parseOld reads the file of a job. It fails where that is not one that leaderrun wrote for this job: adding to
// numbers that mean something else would make lies. It reads what textOf writes, and not every page that the format
// allows; comments and timestamps are passed over.
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
	p := &parser{job: label(job), known: definitions(), families: map[string]*family{}}
	for line := range strings.Lines(string(text)) {
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, err
		}
	}
	if len(p.types) == 0 {
		return nil, errForm
	}
	for _, f := range p.families {
		if err := f.whole(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return p.families, nil
}

// parser reads a file line by line.
type parser struct {
	job      string
	known    map[string]definition
	families map[string]*family
	types    []string // the metrics whose type was told
	current  *family  // of the last of them; nil: one of another version, which is passed over
	skipped  string   // its name
}

func (p *parser) line(line string) error {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	if strings.HasPrefix(line, "#") {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, k, _ := strings.Cut(rest, " ")
			return p.begin(name, kind(k))
		}
		return nil // a help text is this version's
	}
	name, pairs, value, err := sample(line)
	if err != nil {
		return err
	}
	if p.current == nil {
		if p.skipped != "" && strings.HasPrefix(name, p.skipped) {
			return nil
		}
		return fmt.Errorf("it has %s, without a type", name)
	}
	if err := p.current.take(name, pairs, value, p.job); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// begin takes the line that tells the type of a metric, which comes before its samples.
func (p *parser) begin(name string, k kind) error {
	if slices.Contains(p.types, name) {
		return fmt.Errorf("it has %s twice", name)
	}
	p.types = append(p.types, name)
	d, ok := p.known[name]
	if !ok && strings.HasPrefix(name, "leaderrun_") { // of another version
		p.current, p.skipped = nil, name
		return nil
	}
	if !ok || d.kind != k {
		return fmt.Errorf("it has the %s %s", k, name)
	}
	if k == histogram {
		d = d.ofJob()
		d.buckets = nil // those of the file
	}
	p.current = newFamily(new(sync.Mutex), d)
	p.families[name] = p.current
	return nil
}

// take adds a sample of the file.
func (f *family) take(name string, pairs []pair, value float64, job string) error {
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return errors.New("its value cannot be")
	}
	part, bound := strings.TrimPrefix(name, f.name), math.NaN()
	if part == "_bucket" {
		at := slices.IndexFunc(pairs, func(p pair) bool { return p.name == boundLabel })
		if at < 0 {
			return errForm
		}
		var err error
		if bound, err = strconv.ParseFloat(pairs[at].value, 64); err != nil {
			return errForm
		}
		pairs = slices.Delete(pairs, at, at+1)
	}
	labels, err := f.values(pairs, job)
	if err != nil {
		return err
	}
	fresh := f.series[key(labels)] == nil
	s := f.at(labels...)
	switch {
	case f.kind != histogram && part == "" && fresh:
		s.value = value
	case f.kind == histogram && part == "_sum":
		s.sum = value
	case f.kind == histogram && part == "_count":
		s.count = uint64(value)
	case f.kind == histogram && part == "_bucket" && math.IsInf(bound, 1): // the same as the count
	case f.kind == histogram && part == "_bucket":
		f.buckets, s.within = append(f.buckets, bound), append(s.within, uint64(value))
	default:
		return errForm
	}
	return nil
}

// values are those of the labels of a series, which must be the metric's own, and the job's.
func (f *family) values(pairs []pair, job string) ([]string, error) {
	var names, values []string
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	for _, p := range pairs {
		names, values = append(names, p.name), append(values, p.value)
		if p.name == jobLabel && p.value != job {
			return nil, fmt.Errorf("it is about job %q", p.value)
		}
	}
	if !slices.Equal(names, f.labels) {
		return nil, fmt.Errorf("it has the labels %q", names)
	}
	return values, nil
}

// whole checks what only the whole metric shows: the buckets of a histogram rise, and each has all of the one before.
func (f *family) whole() error {
	for _, s := range f.series {
		if !slices.IsSorted(f.buckets) || !slices.IsSorted(s.within) || len(s.within) > 0 && s.within[len(s.within)-1] > s.count {
			return errors.New("its buckets do not fit together")
		}
	}
	return nil
}

// pair is a label and its value.
type pair struct{ name, value string }

// sample takes a line apart.
func sample(line string) (name string, pairs []pair, value float64, err error) {
	end := strings.IndexAny(line, "{ ")
	if end <= 0 {
		return "", nil, 0, errForm
	}
	name, rest := line[:end], line[end:]
	if strings.HasPrefix(rest, "{") {
		if pairs, rest, err = labelsOf(rest[1:]); err != nil {
			return "", nil, 0, err
		}
	}
	fields := strings.Fields(rest) // a timestamp may follow
	if len(fields) < 1 || len(fields) > 2 {
		return "", nil, 0, errForm
	}
	if value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return "", nil, 0, errForm
	}
	return name, pairs, value, nil
}

// labelsOf reads labels up to the brace that ends them.
func labelsOf(text string) (pairs []pair, rest string, err error) {
	for {
		if rest, ok := strings.CutPrefix(text, "}"); ok {
			return pairs, rest, nil
		}
		name, after, ok := strings.Cut(text, `="`)
		if !ok || name == "" {
			return nil, "", errForm
		}
		value, after, ok := unquoted(after)
		if !ok {
			return nil, "", errForm
		}
		pairs = append(pairs, pair{name, value})
		text = strings.TrimPrefix(after, ",")
	}
}

// unquoted reads a value up to the quotation mark that ends it.
func unquoted(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(text[i])
			default:
				return "", "", false
			}
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", false
}
