// Lines counts the lines of code of leaderrun, without tests, blank lines and comments, and prints them by part.
//
//	go run ./scripts/lines
package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

// part is a part of the program, by the folders and files that belong to it: patterns of slash-separated paths.
type part struct {
	name    string
	most    int // what it is to have at most; 0: no bound
	pattern *regexp.Regexp
}

// Only the parts of the product and the laboratory are disjoint: what is named below them is a part of them.
var (
	laboratory = regexp.MustCompile(`^(test|fence/fencetest)/`)
	outside    = regexp.MustCompile(`^(scripts|tools|examples)/`)

	parts = []part{
		{"safety core", 4500, regexp.MustCompile(`^(runner|backends|internal/(lifeline|supervise|supervise/guardian|supervise/tree))/[^/]+\.go$`)},
		{"store: file", 1000, regexp.MustCompile(`^backends/file/`)},
		{"store: redis", 1000, regexp.MustCompile(`^backends/redis/.*\.go$`)},
		{"store: redis, Lua", 200, regexp.MustCompile(`^backends/redis/.*\.lua$`)},
		{"store: etcd", 700, regexp.MustCompile(`^backends/etcd/[^/]+$`)},
		{"store: consul", 700, regexp.MustCompile(`^backends/consul/[^/]+$`)},
		{"store: kubernetes", 700, regexp.MustCompile(`^backends/kubernetes/[^/]+$`)},
		{"store: postgres", 700, regexp.MustCompile(`^backends/postgres/[^/]+$`)},
		{"store: zookeeper", 700, regexp.MustCompile(`^backends/zookeeper/[^/]+$`)},
		{"client: redis", 1000, regexp.MustCompile(`^internal/redis(conn|client|url)/`)},
		{"client: etcd", 1000, regexp.MustCompile(`^backends/etcd/[^/]+/`)},
		{"client: kubernetes", 1000, regexp.MustCompile(`^backends/kubernetes/[^/]+/`)},
		{"client: postgres", 1000, regexp.MustCompile(`^backends/postgres/[^/]+/`)},
		{"client: zookeeper", 1000, regexp.MustCompile(`^backends/zookeeper/[^/]+/`)},
	}
)

func run(root string) error {
	product, lab := 0, 0
	of := make([]int, len(parts))
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := filepath.ToSlash(name)
		if entry.IsDir() {
			if base := path.Base(file); base == "testdata" || base != "." && strings.HasPrefix(base, ".") {
				return fs.SkipDir
			}
			return nil
		}
		n, err := count(name)
		switch {
		case err != nil:
			return err
		case laboratory.MatchString(file):
			lab += n
			return nil
		case outside.MatchString(file):
			return nil
		}
		product += n
		for i, p := range parts {
			if p.pattern.MatchString(file) {
				of[i] += n
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	row("product", product, 24000)
	for i, p := range parts {
		row("  "+p.name, of[i], p.most)
	}
	row("laboratory", lab, 15000)
	return nil
}

func row(name string, n, most int) {
	over := ""
	if n > most {
		over = fmt.Sprintf("   (wanted: %d)", most)
	}
	fmt.Printf("%-22s %6d%s\n", name, n, over)
}

// count returns the lines of a file that have code on them; 0 for tests and what is no program.
func count(name string) (int, error) {
	switch ext := filepath.Ext(name); {
	case strings.HasSuffix(name, "_test.go"):
		return 0, nil
	case ext == ".go":
		return countGo(name)
	case ext == ".lua":
		return countLua(name)
	}
	return 0, nil
}

func countLua(name string) (n int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		code := strings.TrimSpace(string(line))
		if code != "" && !strings.HasPrefix(code, "--") {
			n++
		}
	}
	return n, nil
}

// countGo counts the lines that a token touches.
func countGo(name string) (n int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	last := 0
	for {
		pos, what, literal := s.Scan()
		if what == token.EOF {
			return n, nil
		}
		if what == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := file.Line(pos)
		end := first + strings.Count(literal, "\n")
		n += max(0, end-max(first-1, last))
		last = max(last, end)
	}
}
