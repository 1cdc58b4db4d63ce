package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// skips are the files whose tests skip themselves in other ways than by package test/servers, where LEADERRUN_TEST_REQUIRE can forbid it.
var skips = map[string]string{
	"backends/kubernetes/fuzz_test.go":            "an input that does not fit",
	"backends/redis/memory_test.go":               "other systems have no /proc",
	"fence/sqlfence/sqlite_nocgo_test.go":         "built without cgo; make test-all builds it with",
	"internal/crontab/load_test.go":               "the crontab of another cron",
	"internal/supervise/credential_linux_test.go": "a kernel without keys",
	"internal/supervise/terminal_linux_test.go":   "no pseudo-terminals",
	"internal/ownership/acl_linux_test.go":        "a file system without ACLs",
	"schedule/reference_test.go":                  "an input that does not fit",
	"schedule/text_test.go":                       "an input that does not fit",
	"test/history/history_test.go":                "the machine was too busy to judge",
	"test/release/release_test.go":                "other systems",
	"test/suite/suite.go":                         "what a store cannot be tried on",
}

var skip = regexp.MustCompile(`\bt\.Skip(f|Now)?\(`)

func TestSkipsCanBeForbidden(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "test/servers" || file == "tools" || strings.HasPrefix(d.Name(), ".") && file != "."):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go" || file == "skips_test.go":
			return nil
		}
		text, err := os.ReadFile(file)
		if err == nil && skip.Match(text) {
			found[file] = true
			if skips[file] == "" {
				t.Errorf("%s: a test skips itself unseen: use servers.Lack, or give the reason in skips_test.go", file)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range skips {
		if !found[file] {
			t.Errorf("%s: no test skips itself there any more", file)
		}
	}
}
