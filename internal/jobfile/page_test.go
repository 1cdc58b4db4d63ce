package jobfile

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page says what this package does: its files are accepted, and its table has every key.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/cron.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for language, path := range map[string]string{"yaml": "jobs.yaml", "crontab": "jobs"} {
		blocks := regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```").FindAllStringSubmatch(page, -1)
		if len(blocks) == 0 {
			t.Errorf("no %s in the page", language)
		}
		for _, block := range blocks {
			checkWarnings(t, accepted(t, path, block[1]))
		}
	}

	_, table, _ := strings.Cut(page, "| key of a job |")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows, keys []string
	for _, m := range regexp.MustCompile("\n\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
	}
	for _, key := range jobKeys() {
		keys = append(keys, key.name)
	}
	if !slices.Equal(rows, keys) {
		t.Errorf("the page has the keys %q, the package %q", rows, keys)
	}
}
