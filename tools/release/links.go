package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// A link of a page: where it leads, and to which section.
var links = regexp.MustCompile(`\]\(([^)\s#:]+)(#[^)\s]*)?\)`)

// texts are the examples and some pages, by their paths in the source, with links that lead somewhere.
func (r *release) texts(pages ...string) ([]file, error) {
	all, err := r.examples()
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		content, err := os.ReadFile(filepath.Join(r.root, page))
		if err != nil {
			return nil, err
		}
		all = append(all, file{path: page, mode: 0o644, content: content})
	}
	return r.linked(all), nil
}

// linked returns the files with the links of their pages leading somewhere: to a file beside the page, or else to the page of this
// version on the web.
func (r *release) linked(files []file) []file {
	here := map[string]bool{}
	for _, f := range files {
		for at := f.path; at != "."; at = path.Dir(at) {
			here[at] = true
		}
	}
	at := r.version
	if r.notes == "" { // a snapshot has no tag
		at = r.commit
	}
	all := make([]file, len(files))
	for i, f := range files {
		if strings.HasSuffix(f.path, ".md") {
			f.content = links.ReplaceAllFunc(f.content, func(link []byte) []byte {
				m := links.FindSubmatch(link)
				target := path.Join(path.Dir(f.path), string(m[1]))
				if here[target] {
					return link
				}
				return []byte("](https://github.com/leaderrun/leaderrun/blob/" + at + "/" + target + string(m[2]) + ")")
			})
		}
		all[i] = f
	}
	return all
}
