package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Links to files lead somewhere, and so do those to a section of a page.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(text(t, path), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[0])
			} else if m[2] != "" && !slices.Contains(anchors(text(t, target)), m[2]) {
				t.Errorf("%s: %s: there is no such section", path, m[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The README leads to every page and every example.
func TestReadmeListsAll(t *testing.T) {
	t.Parallel()
	readme := text(t, "../README.md")
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	design, err := filepath.Glob("../docs/design/*.md")
	if err != nil || len(design) < 5 {
		t.Fatalf("%d pages of the design: %v", len(design), err)
	}
	examples, err := filepath.Glob("*/README.md")
	if err != nil || len(examples) < 5 {
		t.Fatalf("%d examples: %v", len(examples), err)
	}
	for _, page := range append(pages, design...) {
		if name := strings.TrimPrefix(filepath.ToSlash(page), "../"); !strings.Contains(readme, "]("+name+")") {
			t.Errorf("README.md does not lead to %s", name)
		}
	}
	for _, example := range examples {
		for page, link := range map[string]string{"../README.md": "examples/", "README.md": ""} {
			if link += filepath.Dir(example) + "/"; !strings.Contains(text(t, page), "]("+link+")") {
				t.Errorf("%s does not lead to %s", page, link)
			}
		}
	}
}

// anchors returns the names of a page's sections.
func anchors(page string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, "#"+strings.ReplaceAll(name, " ", "-"))
	}
	return all
}
