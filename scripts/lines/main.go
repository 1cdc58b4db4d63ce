// Lines counts the lines of code of leaderrun, without tests, blank lines and comments, and prints them by part.
//
//	go run ./scripts/lines
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// parts are of these files, and are to have so many lines at most. Product and laboratory are disjoint: the others are of the product.
var parts = []struct {
	name    string
	most    int
	pattern *regexp.Regexp
}{
	{"product", 24000, regexp.MustCompile(`^(main\.go|fence/[^/]+\.go|(runner|schedule|backends|internal|fence/[^/]+fence)/)`)},
	{"  safety core", 4500, regexp.MustCompile(`^(runner|backends|internal/(lifeline|supervise|supervise/guardian|supervise/tree))/[^/]+\.go$`)},
	{"  store: file", 1000, regexp.MustCompile(`^backends/file/`)},
	{"  store: redis", 1000, regexp.MustCompile(`^backends/redis/.*\.go$`)},
	{"  store: redis, Lua", 200, regexp.MustCompile(`^backends/redis/.*\.lua$`)},
	{"  store: etcd", 700, regexp.MustCompile(`^backends/etcd/[^/]+$`)},
	{"  store: consul", 700, regexp.MustCompile(`^backends/consul/[^/]+$`)},
	{"  store: kubernetes", 700, regexp.MustCompile(`^backends/kubernetes/[^/]+$`)},
	{"  store: postgres", 700, regexp.MustCompile(`^backends/postgres/[^/]+$`)},
	{"  store: zookeeper", 700, regexp.MustCompile(`^backends/zookeeper/[^/]+$`)},
	{"  client: redis", 1000, regexp.MustCompile(`^internal/redis(conn|client|url)/`)},
	{"  client: etcd", 1000, regexp.MustCompile(`^backends/etcd/[^/]+/`)},
	{"  client: kubernetes", 1000, regexp.MustCompile(`^backends/kubernetes/[^/]+/`)},
	{"  client: postgres", 1000, regexp.MustCompile(`^backends/postgres/[^/]+/`)},
	{"  client: zookeeper", 1000, regexp.MustCompile(`^backends/zookeeper/[^/]+/`)},
	{"laboratory", 14500, regexp.MustCompile(`^(test|scripts|tools|fence/fencetest)/`)},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

func run() error {
	of := make([]int, len(parts))
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		code := strings.HasSuffix(name, ".lua") || strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if err != nil || entry.IsDir() || !code || strings.Contains(name, "testdata") {
			return err
		}
		text, err := os.ReadFile(name)
		n := count(name, string(text))
		for i, p := range parts {
			if p.pattern.MatchString(filepath.ToSlash(name)) {
				of[i] += n
			}
		}
		return err
	})
	for i, p := range parts {
		over := ""
		if of[i] > p.most {
			over = fmt.Sprintf("   (wanted: %d)", p.most)
		}
		fmt.Printf("%-22s %6d%s\n", p.name, of[i], over)
	}
	return err
}

// count returns on how many lines of a file there is code.
func count(name, text string) int {
	lines := map[int]bool{}
	if strings.HasSuffix(name, ".lua") {
		for i, line := range strings.Split(text, "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
				lines[i] = true
			}
		}
		return len(lines)
	}
	file := token.NewFileSet().AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, what, literal := s.Scan()
		if what == token.EOF {
			return len(lines)
		}
		if what == token.SEMICOLON && literal == "\n" {
			continue
		}
		for line := range strings.Count(literal, "\n") + 1 {
			lines[file.Line(pos)+line] = true
		}
	}
}
