package crontab

import (
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed hostwork.txt
var hostWorkText string

// hostWork is the table, by lines of words: those of a program by its name, those of several by "".
var hostWork = sync.OnceValue(func() map[string][][]string {
	entries := map[string][][]string{}
	for line := range strings.Lines(hostWorkText) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			name := path.Base(words[0])
			if strings.Contains(name, "*") {
				name = ""
			}
			entries[name] = append(entries[name], words)
		}
	}
	return entries
})

// HostWork returns the first program in a script whose work is the host on which it runs, with the words that make it so, by the table
// in hostwork.txt; "": there is none. Such a program has to run on every host.
func HostWork(script string) string {
	for _, words := range Commands(script) {
		name := path.Base(words[0].Text)
		for _, entries := range [][][]string{hostWork()[name], hostWork()[""]} {
			if at := slices.IndexFunc(entries, func(entry []string) bool { return isEntry(entry, words) }); at >= 0 {
				return strings.Join(append([]string{name}, entries[at][1:]...), " ")
			}
		}
	}
	return ""
}

// isEntry compares a command with a line of the table.
func isEntry(entry []string, words []Token) bool {
	tail := words[0].Text
	if parts := strings.Split(tail, "/"); len(parts) > strings.Count(entry[0], "/") {
		tail = strings.Join(parts[len(parts)-1-strings.Count(entry[0], "/"):], "/")
	}
	if fits, _ := path.Match(entry[0], tail); !fits {
		return false
	}
	at := 1
	for _, t := range words[1:] {
		if at < len(entry) && t.Text == entry[at] {
			at++
		}
	}
	return at == len(entry)
}
