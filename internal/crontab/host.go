package crontab

import (
	_ "embed"
	"path"
	"strings"
	"sync"
)

//go:embed hostwork.txt
var hostWorkText string

// hostWork is the table: the words of its lines by the first one, which is a program or DIRECTORY/*.
var hostWork = sync.OnceValue(func() map[string][][]string {
	entries := map[string][][]string{}
	for line := range strings.Lines(hostWorkText) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			entries[words[0]] = append(entries[words[0]], words[1:])
		}
	}
	return entries
})

// HostWork returns the first program in a script whose work is the host on which it runs, with the words that make it so, by the table
// in hostwork.txt; "": there is none. Such a program has to run on every host.
func (s *Script) HostWork() string {
	for _, words := range s.Commands {
		dir, name := path.Split(words[0].Text)
		for _, key := range []string{name, path.Base(dir) + "/*"} {
			for _, entry := range hostWork()[key] {
				if standInOrder(entry, words[1:]) {
					return strings.Join(append([]string{name}, entry...), " ")
				}
			}
		}
	}
	return ""
}

// standInOrder says whether all words of an entry are among others, in their order.
func standInOrder(entry []string, words []Token) bool {
	for _, t := range words {
		if len(entry) > 0 && t.Text == entry[0] {
			entry = entry[1:]
		}
	}
	return len(entry) == 0
}
