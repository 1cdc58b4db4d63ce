package bed

import (
	"cmp"
	"fmt"
	"slices"
)

// Marks of the part of a page that RenderSingle writes.
const (
	singleBegin = "<!-- single faults -->"
	singleEnd   = "<!-- /single faults -->"
)

// RenderSingle is a table, with its marks, of beds to which one fault happened: by fault and by way and store, whether two
// copies ran at once, and for how long. A bed watches for two TTLs after the fault was mended, and ends all then.
func RenderSingle(byFault map[string][]Report) string {
	type column struct{ store, way string }
	var columns []column
	for _, reports := range byFault {
		for _, r := range reports {
			if c := (column{r.Store, r.Way}); !slices.Contains(columns, c) {
				columns = append(columns, c)
			}
		}
	}
	slices.SortFunc(columns, func(a, b column) int { return cmp.Or(cmp.Compare(a.store, b.store), cmp.Compare(b.way, a.way)) })
	head := []string{"fault"}
	for _, c := range columns {
		head = append(head, c.way+", "+c.store)
	}
	t := newTable(head...)
	for _, fault := range sortedKeys(byFault) {
		row := []any{fault}
		for _, c := range columns {
			cell := ""
			for _, r := range byFault[fault] {
				if (column{r.Store, r.Way}) == c {
					cell = r.copies()
				}
			}
			row = append(row, cell)
		}
		t.add(row...)
	}
	return singleBegin + "\n\n" + t.String() + "\n\n" + singleEnd + "\n"
}

// copies is how many copies of the worker ran at once.
func (r Report) copies() string {
	switch {
	case len(r.Violations) > 0:
		return "**violation**"
	case r.Overlaps.Count == 0:
		return "one"
	case r.Overlaps.Excused == r.Overlaps.Count:
		return fmt.Sprintf("two for %s, excused: %d stale writes refused, %d accepted", spell(r.Overlaps.Together), r.Ledger.Refused, r.Ledger.StaleFenced)
	default:
		return fmt.Sprintf("**two for %s**, %d stale writes", spell(r.Overlaps.Together), r.Ledger.StaleUnfenced)
	}
}
