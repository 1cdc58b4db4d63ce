package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	pass = `{"Action":"pass","Package":"github.com/leaderrun/leaderrun/backends","Test":"TestA"}` + "\n"
	skip = `{"Action":"output","Package":"github.com/leaderrun/leaderrun/backends","Test":"TestB","Output":"    b_test.go:7: etcd is not installed\n"}` + "\n" +
		`{"Action":"skip","Package":"github.com/leaderrun/leaderrun/backends","Test":"TestB"}` + "\n"
	mutant = "| rule that is broken | caught by | after |\n| --- | --- | --- |\n| no quarantine | TestA | 1 s |\n"
)

// folder is a run that wrote these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	t.Parallel()
	all := folder(t, map[string]string{"all.json": pass + skip + "no event\n", "mutants.md": mutant})
	less := folder(t, map[string]string{"all.json": pass})
	for _, c := range []struct {
		args         []string
		output, fail string
	}{
		{[]string{"skipped", filepath.Join(all, "all.json")}, "skipped: etcd is not installed: backends 1\n", ""},
		{[]string{"same", all, all, all}, "tests and mutants", ""},
		{[]string{"same", all, less}, ": mutant: no quarantine\n", "1 tests or mutants were not"},
		{[]string{"same", all, t.TempDir()}, "", "has no .json file"},
		{[]string{"same", all}, "", "the words are"},
	} {
		var out bytes.Buffer
		err := run(c.args, &out)
		if !strings.Contains(out.String(), c.output) || (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%q: %v\n%s", c.args, err, &out)
		}
	}
}
