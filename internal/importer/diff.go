package importer

import (
	"fmt"
	"slices"
	"strings"
)

// Diff is a unified diff of what changes, without lines around it; "": nothing does.
func (f *File) Diff() string {
	var b strings.Builder
	old, now := 0, 0            // how many lines stand before
	var removed, added []string // lines of one hunk
	for _, r := range append(slices.Clip(f.rows), row{}) {
		before := r.marks + r.Text
		comment, stays := strings.CutSuffix(r.after, before)
		if !stays {
			removed, added = slices.AppendSeq(removed, strings.Lines(before)), slices.AppendSeq(added, strings.Lines(r.after))
			continue
		}
		if added = slices.AppendSeq(added, strings.Lines(comment)); len(removed)+len(added) > 0 {
			if b.Len() == 0 {
				fmt.Fprintf(&b, "--- %s\n+++ %s\n", f.Path, f.Path)
			}
			fmt.Fprintf(&b, "@@ -%s +%s @@\n", place(old, len(removed)), place(now, len(added)))
			writeSigned(&b, '-', removed)
			writeSigned(&b, '+', added)
		}
		same := strings.Count(before, "\n")
		old, now = old+len(removed)+same, now+len(added)+same
		removed, added = nil, nil
	}
	return b.String()
}

// place is where the lines of a hunk are, as diff writes it.
func place(before, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, n)
}

func writeSigned(b *strings.Builder, sign byte, lines []string) {
	for _, line := range lines {
		b.WriteString(string(sign) + strings.TrimSuffix(line, "\n") + "\n")
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\\ No newline at end of file\n")
		}
	}
}
