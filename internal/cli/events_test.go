package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// People filter by the names of events: one that the table does not have cannot be found.
func TestDocumentationHasEveryEvent(t *testing.T) {
	page, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	cli := regexp.MustCompile(`(?:runner\.Event\{\s*Name: "|e\.Name[^=\n]* = "|event\\":\\")([a-z_]+)`)
	for dir, names := range map[string]*regexp.Regexp{
		".":            cli,
		"*":            cli,
		"../launch":    cli,
		"../daemon":    regexp.MustCompile(`d\.(?:note|warn)\([^"\n]*"([a-z_]+)"`),
		"../../runner": regexp.MustCompile(`Event[A-Z]\w+\s+= "([a-z_]+)"`),
	} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range names.FindAllSubmatch(source, -1) {
				found++
				if !strings.Contains(string(page), "`"+string(match[1])+"`") {
					t.Errorf("%s: docs/operating.md does not have the event %s", file, match[1])
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: found %d names of events: they are written in another way now", dir, found)
		}
	}
}
