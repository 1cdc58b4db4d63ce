package crontabs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/importer"
	"github.com/leaderrun/leaderrun/internal/lint"
)

// The cases of testdata/lint.cases.
func TestLint(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/lint.cases")
	if err != nil {
		t.Fatal(err)
	}
	this := &crontab.Host{
		IsUser:    func(name string) bool { return name == "root" || name == "www-data" || name == "sync" },
		IsProgram: func(name, _ string) bool { return name == "sync" },
	}
	for _, text := range strings.Split(strings.TrimSpace(string(text)), "\n\n")[1:] {
		name, text, _ := strings.Cut(text, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sources []lint.Source
			var want []string
			for line := range strings.Lines(text + "\n") {
				host, line, isFile := strings.Cut(line, "| ")
				if !isFile {
					want = append(want, strings.TrimSpace(strings.TrimPrefix(host, ">")))
					continue
				}
				if n := len(sources); n == 0 || sources[n-1].Path != host {
					s := lint.Source{Path: host, Host: n}
					if strings.HasPrefix(host, "system") {
						s.Format = crontab.System
					}
					sources = append(sources, s)
				}
				s := &sources[len(sources)-1]
				s.Text = append(s.Text, line...)
			}
			var got []string
			for _, f := range lint.Look(sources, lint.Host{Named: strings.Contains(name, "job file"), Refuses: newRefusals().of, This: this}) {
				got = append(got, fmt.Sprintf("%s:%d %s", f.Path, f.Line, f.Rule))
				t.Logf("%+v", f)
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// What import has written is well, but for locks.
func TestLintIsSilentAboutWhatImportWrites(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../importer/testdata/crontabs/*")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		format := map[string]crontab.Format{".system": crontab.System, ".supercronic": crontab.Supercronic}[filepath.Ext(file)]
		name := filepath.Base(file)
		imported, _ := importer.Import([]importer.Source{{Path: name, Text: text, Format: format}}, importer.Options{})
		for _, f := range lint.Look([]lint.Source{{Path: name, Text: imported[0].After, Format: format}}, lint.Host{Named: true, Refuses: newRefusals().of}) {
			if f.Rule != lint.Lock { // import leaves locks that others may use, and says so
				t.Errorf("%+v", f)
			}
		}
	}
}

func TestFilesThatCronRefuses(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(path string) error{
		"":                                  func(string) error { return nil },
		"others can write it: mode 666":     func(path string) error { return os.Chmod(path, 0o666) },
		"others can write it: mode 660":     func(path string) error { return os.Chmod(path, 0o660) },
		"it has another name (a hard link)": func(path string) error { return os.Link(path, path+"2") },
		"it does not belong to root":        func(path string) error { return os.Chown(path, 1, 0) },
	} {
		file := filepath.Join(t.TempDir(), "app")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := change(file); errors.Is(err, fs.ErrPermission) {
			t.Log("not root: ", why)
		} else if got := cronRefuses(file); err != nil || got != why && os.Geteuid() == 0 {
			t.Errorf("got %q, %v, want %q", got, err, why)
		}
	}
}
