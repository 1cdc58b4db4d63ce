package bed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Marks of the part of a page that Render writes.
const (
	pageBegin = "<!-- bed -->"
	pageEnd   = "<!-- /bed -->"
)

// Render is the part of docs/design/reliability.md that is measured, with its marks: reports of the same store and way become one
// row. The same reports in the same order give the same text.
func Render(reports []Report) string {
	all := Merge(reports)
	held := slices.DeleteFunc(slices.Clone(all), func(r Report) bool { return r.Way != ours })
	peers := slices.DeleteFunc(slices.Clone(all), func(r Report) bool { return r.Way == ours })
	parts := []string{pageBegin}
	for _, cast := range Casts {
		of := slices.DeleteFunc(slices.Clone(held), func(r Report) bool { return r.Cast != cast })
		if len(of) == 0 {
			continue
		}
		if cast == Divided {
			parts = append(parts, "The same with slots and shards, and hosts that come and go:")
		}
		parts = append(parts, summary(of).String(), marginTable(of).String())
		if m := matrix(of); len(m.rows) > 0 {
			parts = append(parts, "From a fault, alone, that ended the run, to the first beat of the next: the median (how many).", m.String())
		}
	}
	for _, r := range held {
		if len(r.Violations) > 0 {
			parts = append(parts, violations(r))
		}
	}
	if len(peers) > 0 {
		parts = append(parts, "Others on the same bed:", peerTable(peers).String())
	}
	return strings.Join(append(parts, pageEnd), "\n\n") + "\n"
}

// Insert returns a page with what was rendered, marks included, in the place of what was between the same marks.
func Insert(page, rendered string) (string, error) {
	lines := strings.Split(strings.TrimSpace(rendered), "\n")
	first, last := lines[0], lines[len(lines)-1]
	before, rest, begins := strings.Cut(page, first)
	_, after, ends := strings.Cut(rest, last)
	if !begins || !ends {
		return "", errors.New("the page has no place for it: " + first + " … " + last)
	}
	return before + strings.TrimSuffix(rendered, "\n") + after, nil
}

func summary(reports []Report) *table {
	t := newTable("store", "TTL", "time", "seed", "runs", "ticks", "faults", "violations", "excused overlaps", "stale writes refused", "accepted")
	for _, r := range reports {
		t.add(r.Store, r.TTL, r.Time.Round(time.Second), seeds(r.Seeds), r.Runs, r.Ticks, r.Faults, len(r.Violations), r.Overlaps.Excused,
			r.Ledger.Refused, r.Ledger.StaleFenced)
	}
	return t
}

// marginTable is of jobs for which somebody always waits: nobody waits for a tick before it is due.
func marginTable(reports []Report) *table {
	t := newTable("margin between two runs", "after a run that ended by itself: min", "p1", "p50", "after a fault: min", "p1", "p50")
	for _, r := range reports {
		var m Margins
		for job, of := range r.Margins {
			if stands(job) {
				m = m.plus(of)
			}
		}
		row := []any{r.Store}
		for _, times := range []Times{m.Clean, m.Fault} {
			for _, p := range []int{0, 1, 50} {
				row = append(row, percentile(times, p))
			}
		}
		t.add(row...)
	}
	return t
}

func percentile(t Times, p int) string {
	if len(t) == 0 {
		return ""
	}
	return spell(t.Percentile(p))
}

// matrix has a row for each fault and a column for each store.
func matrix(reports []Report) *table {
	faults, head := map[string]bool{}, []string{"fault"}
	for _, r := range reports {
		head = append(head, r.Store)
		for fault := range r.Takeovers {
			faults[fault] = true
		}
	}
	t := newTable(head...)
	for _, fault := range sortedKeys(faults) {
		row := []any{fault}
		for _, r := range reports {
			cell := ""
			if times := r.Takeovers[fault]; len(times) > 0 {
				cell = fmt.Sprintf("%s (%d)", spell(times.Median()), len(times))
			}
			row = append(row, cell)
		}
		t.add(row...)
	}
	return t
}

func peerTable(reports []Report) *table {
	t := newTable("peer", "store", "time", "runs", "faults", "overlaps", "of them excused", "longest overlap", "two at once for up to", "stale writes")
	for _, r := range reports {
		t.add(r.Way, r.Store, r.Time.Round(time.Second), r.Runs, r.Faults, r.Overlaps.Count, r.Overlaps.Excused, spell(r.Overlaps.Longest),
			spell(r.Overlaps.Together), r.Ledger.StaleUnfenced)
	}
	return t
}

func violations(r Report) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Violations on %s:\n\n```text\n", r.Store)
	for _, v := range r.Violations {
		s.WriteString(v.String())
	}
	return s.String() + "```"
}

// seeds are all of a few, else how many.
func seeds(all []uint64) string {
	const few = 4
	if len(all) > few {
		return fmt.Sprintf("%d seeds", len(all))
	}
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = fmt.Sprint(s)
	}
	return strings.Join(words, ", ")
}

// spell is a duration with as many digits as matter.
func spell(d time.Duration) string {
	switch abs := d.Abs(); {
	case abs < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case abs < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// table is one of Markdown: the first column is words, the others are numbers.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

func (t *table) String() string {
	lines := []string{line(t.head), "| --- |" + strings.Repeat(" ---: |", len(t.head)-1)}
	for _, row := range t.rows {
		lines = append(lines, line(row))
	}
	return strings.Join(lines, "\n")
}

func line(cells []string) string {
	return strings.ReplaceAll("| "+strings.Join(cells, " | ")+" |", "|  |", "| |")
}
