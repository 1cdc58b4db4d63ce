package importer

import (
	"fmt"
	"slices"
	"strings"
)

const around = 3 // lines of context

// Diff is a unified diff of what changes; "": nothing does.
func (f *File) Diff() string {
	var lines, added []diffLine // added are those that follow the removed ones before them
	add := func(text string) {
		for line := range strings.Lines(text) {
			added = append(added, diffLine{'+', line})
		}
	}
	for _, p := range f.pairs {
		comment, same := strings.CutSuffix(p.after, p.before)
		switch {
		case p.before == "":
			add(p.after)
		case same:
			add(comment)
			lines = append(append(lines, added...), diffLine{' ', p.before})
			added = nil
		default:
			lines = append(lines, diffLine{'-', p.before})
			add(p.after)
		}
	}
	lines = append(lines, added...)
	shown := make([]bool, len(lines))
	for i, l := range lines {
		if l.sign == ' ' {
			continue
		}
		for at := max(i-around, 0); at <= min(i+around, len(lines)-1); at++ {
			shown[at] = true
		}
	}
	var b strings.Builder
	old, now := 1, 1 // line numbers
	for at, end := 0, 0; at < len(lines); at = max(end, at+1) {
		if !shown[at] {
			old, now = old+1, now+1
			continue
		}
		if end = at + slices.Index(shown[at:], false); end < at {
			end = len(lines)
		}
		if b.Len() == 0 {
			fmt.Fprintf(&b, "--- %s\n+++ %s\n", f.Path, f.Path)
		}
		olds, news := count(lines[at:end], '-'), count(lines[at:end], '+')
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", place(old, olds), place(now, news))
		for _, l := range lines[at:end] {
			b.WriteString(string(l.sign) + strings.TrimSuffix(l.text, "\n") + "\n")
			if !strings.HasSuffix(l.text, "\n") {
				b.WriteString("\\ No newline at end of file\n")
			}
		}
		old, now = old+olds, now+news
	}
	return b.String()
}

type diffLine struct {
	sign byte
	text string
}

func count(lines []diffLine, sign byte) int {
	n := 0
	for _, l := range lines {
		if l.sign == ' ' || l.sign == sign {
			n++
		}
	}
	return n
}

// place is where a hunk is, as diff writes it.
func place(line, n int) string {
	if n == 0 {
		line--
	}
	if n == 1 {
		return fmt.Sprint(line)
	}
	return fmt.Sprintf("%d,%d", line, n)
}
