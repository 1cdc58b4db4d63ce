package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/tables.txt")

// results are those of testdata/results.json.
func results(t *testing.T) *report {
	t.Helper()
	r, err := readReports("testdata/results.json")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTables(t *testing.T) {
	const path = "testdata/tables.txt"
	got := results(t).text()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if this is meant, run with -update and look at it:\n%s", path, diff)
	}
}

func TestFill(t *testing.T) {
	const mark, end = "<!-- bench: whole -->", "<!-- /bench -->"
	for _, test := range []struct {
		name, page, want, err string
	}{
		{"a page without marks", "# x\n", "# x\n", ""},
		{"what nothing was measured of stays", "<!-- bench: memory -->\nold\n" + end + "\n", "<!-- bench: memory -->\nold\n" + end + "\n", ""},
		{"a size that was not measured stays", "<!-- bench: late 7 -->\nold\n" + end, "<!-- bench: late 7 -->\nold\n" + end, ""},
		{"a mark without an end", mark + "\n", "", "1 marks, of which 0 have an end"},
		{"a mark inside another", mark + "\n" + mark + "\n" + end, "", "2 marks, of which 1 have an end"},
		{"an unknown table", "<!-- bench: hole -->\n" + end, "", `no table "hole"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := fill(test.page, results(t))
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v, (-want +got):\n%s", err, diff)
			}
		})
	}
	page := "before\n" + mark + "\nold\n" + end + "\nbetween\n<!-- bench: late 10 -->\n" + end + "\nafter\n"
	once, err := fill(page, results(t))
	if err != nil {
		t.Fatal(err)
	}
	twice, err := fill(once, results(t))
	if diff := cmp.Diff(once, twice); err != nil || diff != "" {
		t.Errorf("filled again: %v, (-once +twice):\n%s", err, diff)
	}
	for _, part := range []string{"before\n" + mark + "\n\n| |", "| flock |", "|\n\n" + end + "\nbetween\n", "| supercronic |", "after\n"} {
		if !strings.Contains(once, part) {
			t.Errorf("%q is missing in:\n%s", part, once)
		}
	}
	if strings.Contains(once, "old") {
		t.Errorf("what was there is still there:\n%s", once)
	}
}
