package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page is a contract: its tables have every metric and outcome, and nothing else.
func TestDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, d := range definitions {
		row := []string{"| `" + d.name + "`", strings.ToLower(d.kind.String()), strings.Join(d.labels, ", "), strings.TrimSuffix(d.help, ".")}
		want = append(want, strings.Join(strings.Fields(strings.Join(row, " | ")), " "))
	}
	var got []string
	for _, line := range regexp.MustCompile("(?m)^\\| `leaderrun_.*$").FindAllString(string(text), -1) {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		if len(cells) < 4 {
			t.Fatalf("a short row: %s", line)
		}
		sentence, _, _ := strings.Cut(cells[3], ". ")
		sentence = strings.TrimSuffix(strings.TrimSpace(sentence), ".")
		row := "| " + strings.Join(cells[:3], "|") + "| " + sentence
		got = append(got, strings.Join(strings.Fields(row), " "))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md (+) and the code (-) differ:\n%s", diff)
	}

	outcomes := []string{
		done, failed, stopped, timedOut, lost, unconfirmed, unrecorded, skippedHeld, skippedDone, skippedEnded, skippedLate,
		unreachable, refused, interrupted, startFailed,
	}
	var documented []string
	_, table, _ := strings.Cut(string(text), "| outcome |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(table, -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(outcomes)
	slices.Sort(documented)
	if diff := cmp.Diff(outcomes, documented); diff != "" {
		t.Errorf("the outcomes of docs/metrics.md (+) and of the code (-) differ:\n%s", diff)
	}

	files := regexp.MustCompile(`leaderrun_[\w-]+\.prom`).ReplaceAllString(string(text), "")
	for _, name := range regexp.MustCompile(`leaderrun_\w+`).FindAllString(files, -1) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !slices.ContainsFunc(definitions[:], func(d definition) bool { return d.name == base }) {
			t.Errorf("the page speaks of %s, which is not there", name)
		}
	}
}
