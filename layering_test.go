package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const modulePath = "github.com/leaderrun/leaderrun"

// layer says what the packages at and below path may import outside their tests: ours are packages of this
// module, theirs are other modules; "x/..." is x and all below. The longest path that fits a package counts.
// The standard library is free but for the table after this one, and a package may import what is below it.
type layer struct {
	path   string
	ours   []string
	theirs []string
	tests  bool // made for tests: the product never links it
}

// The layers, from the top. Imports run one way: main, command, runner and schedule and backends/all,
// drivers, backends.
var layers = []layer{
	{path: "", ours: []string{"internal/cli", "internal/supervise/..."}},
	{
		path:   "internal/cli",
		ours:   []string{"runner", "schedule", "fence/...", "backends", "backends/all", "internal/..."},
		theirs: []string{"github.com/urfave/cli/v2", "go.yaml.in/yaml/v3", "golang.org/x/sys/..."},
	},
	{path: "runner", ours: []string{"backends", "schedule", "internal/lifeline", "internal/boottime", "internal/panics"}},
	{path: "schedule", ours: []string{"internal/duration"}, theirs: []string{"github.com/robfig/cron/v3"}},
	{path: "fence", ours: []string{"internal/remedy"}},
	{path: "fence/fencetest", ours: []string{"fence"}, tests: true},
	{path: "fence/filefence", ours: []string{"fence", "internal/filename", "internal/flock"}, theirs: []string{"golang.org/x/sys/..."}},
	{path: "fence/httpfence", ours: []string{"fence", "fence/filefence"}},
	{path: "fence/redisfence", ours: []string{"fence"}, theirs: []string{"github.com/redis/go-redis/v9/..."}},
	{path: "fence/s3fence", ours: []string{"fence"}, theirs: []string{"github.com/aws/aws-sdk-go-v2/aws/..."}},
	{path: "fence/sqlfence", ours: []string{"fence"}},
	{path: "backends/all", ours: []string{"backends/...", "internal/spelling"}},
	{path: "test/suite", ours: []string{"backends", "internal/boottime", "internal/checkup", "test/waits"}, theirs: []string{"..."}, tests: true},
	{path: "test/virtual", ours: []string{"backends", "internal/lifeline", "runner"}, tests: true},
	{path: "backends/file", ours: []string{"backends", "internal/checkup", "internal/filename", "internal/filesystem", "internal/flock", "internal/ownership", "internal/panics"}},
	{path: "backends/redis", ours: []string{"backends", "internal/checkup", "internal/backendurl", "internal/redisurl", "internal/redisconn", "internal/boottime", "internal/panics"}, theirs: []string{"github.com/redis/go-redis/v9/..."}},
	{path: "backends/etcd", ours: []string{"backends", "internal/checkup", "internal/backendurl", "internal/boottime", "internal/httplimit", "internal/panics"}},
	{path: "backends/kubernetes", ours: []string{"backends", "internal/checkup", "internal/backendurl", "internal/boottime", "internal/credentialplugin", "internal/httplimit", "internal/ownership", "internal/panics"}, theirs: []string{"go.yaml.in/yaml/v3"}},
	{path: "backends/zookeeper", ours: []string{"backends", "internal/checkup", "internal/backendurl", "internal/boottime", "internal/panics"}},
	{path: "backends/postgres", ours: []string{"backends", "internal/checkup", "internal/backendurl", "internal/boottime", "internal/panics"}, theirs: []string{"github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/pgproto3"}},
	{path: "backends/consul", ours: []string{"backends", "internal/checkup", "internal/backendurl", "internal/boottime", "internal/httplimit", "internal/ownership", "internal/panics"}, theirs: []string{"github.com/hashicorp/consul/api/..."}},
	{path: "backends", ours: []string{"internal/panics", "internal/remedy"}},
	{path: "internal/supervise", ours: []string{"internal/lifeline", "internal/boottime", "internal/panics"}, theirs: []string{"golang.org/x/sys/..."}},
	{path: "test", ours: []string{"..."}, theirs: []string{"..."}, tests: true},
	{path: "internal/filename"},
	{path: "internal/filesystem"},
	{path: "internal/flock"},
	{path: "internal/httplimit"},
	{path: "internal/ownership"},
	{path: "internal/credentialplugin", ours: []string{"internal/panics"}},
	{path: "internal/metrics", ours: []string{"runner", "backends", "internal/filename", "internal/ownership"}},
	{path: "internal/checkup", ours: []string{"backends", "internal/panics"}},
	{path: "internal/backendurl", ours: []string{"backends", "internal/duration", "internal/ownership"}},
	{path: "internal/redisurl", ours: []string{"backends", "internal/backendurl"}},
	{path: "internal/redisconn", ours: []string{"internal/backendurl", "internal/redisurl"}},
	{path: "internal/redisclient", ours: []string{"internal/redisurl", "internal/redisconn", "internal/panics"}, theirs: []string{"github.com/redis/go-redis/v9/..."}},
	{
		path:   "internal/jobfile",
		ours:   []string{"backends", "runner", "schedule", "internal/account", "internal/crontab", "internal/duration", "internal/spelling", "internal/ownership", "internal/slots"},
		theirs: []string{"go.yaml.in/yaml/v3"},
	},
	{path: "internal/account"},
	{path: "internal/crontab"},
	{path: "internal/importer", ours: []string{"schedule", "internal/crontab", "internal/duration", "internal/ownership"}, theirs: []string{"go.yaml.in/yaml/v3"}},
	{path: "internal/lint", ours: []string{"schedule", "internal/crontab", "internal/jobfile"}},
	{path: "internal/boottime"},
	{path: "internal/daemon", ours: []string{"runner", "backends", "internal/jobfile", "internal/boottime", "internal/panics", "internal/shards", "internal/slots"}},
	{path: "internal/panics"},
	{path: "internal/slots", ours: []string{"backends", "internal/panics"}},
	{path: "internal/shards", ours: []string{"backends", "runner", "internal/panics", "internal/slots"}},
	{path: "internal/duration"},
	{path: "internal/remedy"},
	{path: "internal/spelling"},
	{path: "internal", ours: []string{"internal/lifeline", "internal/boottime"}},
	{path: "examples", ours: []string{"fence/...", "runner", "schedule", "backends/..."}, theirs: []string{"..."}},
	{path: "scripts", ours: []string{"..."}, theirs: []string{"..."}},
}

// The packages of the standard library that not every package may import, and which may.
var restricted = map[string][]string{
	"os/exec":   {"internal/supervise/...", "internal/credentialplugin", "test/...", "scripts/...", "examples/..."},
	"os/signal": {"internal/supervise/...", "internal/cli", "test/...", "scripts/...", "examples/..."},
	"log/slog":  {"runner", "internal/...", "test/...", "scripts/...", "examples/..."},
	"log":       {"examples/..."},
	"testing":   {"test/...", "fence/fencetest"},
	"flag":      {"internal/cli", "scripts/...", "examples/...", "test/..."},
}

// What go.mod may require directly, and why.
var modules = map[string]string{
	"github.com/urfave/cli/v2":            "flags of internal/cli",
	"github.com/robfig/cron/v3":           "the fields of a cron expression, behind package schedule",
	"go.yaml.in/yaml/v3":                  "job files and the configuration file, strict; kubeconfig",
	"golang.org/x/sys":                    "prctl, pidfd and the like, which package syscall lacks",
	"github.com/redis/go-redis/v9":        "driver redis, and fences in it",
	"go.etcd.io/etcd/api/v3":              "tests: the official messages, as the oracle of the etcd client",
	"go.etcd.io/etcd/client/v3":           "tests: the official client, as the oracle of the etcd client",
	"google.golang.org/grpc":              "tests: the errors of the official client",
	"github.com/hashicorp/consul/api":     "driver consul",
	"github.com/aws/aws-sdk-go-v2":        "the signature of requests to S3, of s3fence",
	"github.com/prometheus/client_golang": "tests: the official client, as the oracle of our metrics",
	"github.com/prometheus/client_model":  "tests: what the official parser reads",
	"github.com/prometheus/common":        "tests: the official parser and writer of the text format",
	"github.com/jackc/pgx/v5":             "driver postgres: its log-in and its messages (pgconn, pgproto3); tests: a driver of PostgreSQL for package fence/sqlfence",
	"github.com/go-sql-driver/mysql":      "tests: one of MySQL and MariaDB",
	"github.com/mattn/go-sqlite3":         "tests: one of SQLite",
	"github.com/anishathalye/porcupine":   "tests: is a history of claims linearizable",
	"github.com/google/go-cmp":            "tests: differences that can be read",
	"github.com/rogpeppe/go-internal":     "tests: the command line, as .txtar scripts",
	"go.uber.org/goleak":                  "tests: goroutines left behind",
	"pgregory.net/rapid":                  "tests: state machines against a model",
}

// The files of every store, beside the one that has its name: who knows one store finds everything in another.
// docs/writing-a-backend.md says what they hold.
var storeFiles = []string{"config.go", "keys.go", "read.go", "extend.go", "swap.go", "list.go", "watch.go", "errors.go", "check.go"}

// The packages below backends that are no drivers, and what a driver may lack.
var (
	noDrivers = []string{"all", "suite"}
	without   = map[string]string{
		"file":       "extend.go", // a lock has no end of its own
		"kubernetes": "extend.go", // a Lease has no end of its own
		"postgres":   "extend.go", // a lease is what Swap writes
	}
)

// Names that say nothing about what a package holds.
var vague = []string{"base", "common", "core", "helper", "helpers", "lib", "misc", "shared", "util", "utils"}

// source is a package as its files have it, whatever system they are for.
type source struct {
	path    string // below the module, "" at the top
	name    string
	imports []string // without those of tests
}

func TestImportsRunOneWay(t *testing.T) {
	for _, s := range sources(t) {
		for _, v := range violations(s) {
			t.Error(v)
		}
	}
}

func TestProductLinksNoTestCode(t *testing.T) {
	if _, err := os.Stat("main.go"); err != nil {
		t.Skip("there is no program yet")
	}
	for _, v := range testCode(sources(t)) {
		t.Error(v)
	}
	// Other modules may do so behind our back.
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{.Imports}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(strings.Fields(strings.Trim(imports, "[]")), "testing") {
			t.Errorf("the program links testing: %s imports it", pkg)
		}
	}
}

func TestDriversLookAlike(t *testing.T) {
	for _, v := range unlike(t, os.DirFS("backends")) {
		t.Error(v)
	}
	made := fstest.MapFS{"backend.go": {}, "all/all.go": {}, "file/file.go": {}, "etcd/config.go": {}}
	for _, name := range storeFiles {
		made["file/"+name], made["etcd/"+name] = &fstest.MapFile{}, &fstest.MapFile{}
	}
	delete(made, "file/extend.go")
	delete(made, "etcd/check.go")
	if got := strings.Join(unlike(t, made), ", "); got != "driver etcd has no file check.go, driver etcd has no file etcd.go" {
		t.Errorf("what is missing is not noticed: %q", got)
	}
}

// unlike says which files the drivers in a folder lack.
func unlike(t *testing.T, backends fs.FS) (missing []string) {
	t.Helper()
	entries, err := fs.ReadDir(backends, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		driver := e.Name()
		if !e.IsDir() || slices.Contains(noDrivers, driver) {
			continue
		}
		for _, name := range append(slices.Clone(storeFiles), driver+".go") {
			if _, err := fs.Stat(backends, driver+"/"+name); err != nil && without[driver] != name {
				missing = append(missing, fmt.Sprintf("driver %s has no file %s", driver, name))
			}
		}
	}
	return missing
}

// Where a goroutine may begin without panics.Go: what hands its panics on, and what must not import it.
var bareGoroutines = []string{
	"internal/panics", "internal/boottime", "internal/supervise/ahead", "internal/supervise/guardian", "internal/supervise/tree",
	"runner/loop.go", "internal/daemon/due.go",
}

// A panic in a goroutine ends the program with a stack, past every rule of ours, unless it was started with care.
func TestGoroutinesBeginWhereTheirPanicsAreCaught(t *testing.T) {
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		at := layerOf(path.Dir(name))
		product := at != nil && !at.tests && !isTestCode(path.Dir(name)) &&
			slices.ContainsFunc([]string{"backends", "fence", "internal", "runner", "schedule"}, func(top string) bool { return strings.HasPrefix(name, top+"/") })
		if !product || slices.ContainsFunc(bareGoroutines, func(free string) bool { return strings.HasPrefix(name, free) }) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s begins a goroutine by itself: panics.Go does that", name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestModulesHaveAReason(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range unreasoned(mod) {
		t.Error(v)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	product, tests, _ := strings.Cut(string(mod), "// What its tests use.")
	for module := range modules {
		switch {
		case strings.Contains(product, "\t"+module+" v") && !slices.Contains(linked, module):
			t.Errorf("go.mod: %s is not linked: it belongs to what the tests use", module)
		case strings.Contains(tests, "\t"+module+" v") && slices.Contains(linked, module):
			t.Errorf("go.mod: %s is linked: it belongs to what the program links", module)
		}
	}
}

// A check that finds nothing may be one that cannot find anything.
func TestViolationsAreFound(t *testing.T) {
	const ours = modulePath + "/"
	for _, c := range []struct {
		pkg, imports string
		want         string // "" : allowed
	}{
		{"", ours + "internal/cli", ""},
		{"", ours + "internal/supervise/guardian", ""},
		{"", ours + "runner", "main may not import runner"},
		{"", "github.com/urfave/cli/v2", "main may not import github.com/urfave/cli/v2"},
		{"internal/cli", ours + "backends/all", ""},
		{"internal/cli", ours + "internal/supervise", ""},
		{"internal/cli", ours + "backends/redis", "internal/cli may not import backends/redis"},
		{"internal/cli", "os/exec", "internal/cli may not import os/exec"},
		{"internal/cli", ours + "test/servers", "test/servers is for tests"},
		{"runner", ours + "backends", ""},
		{"runner", ours + "backends/file", "runner may not import backends/file"},
		{"runner", ours + "backends/all", "runner may not import backends/all"},
		{"runner", ours + "internal/supervise", "runner may not import internal/supervise"},
		{"runner", "github.com/redis/go-redis/v9", "runner may not import github.com/redis/go-redis/v9"},
		{"runner", "testing", "runner may not import testing"},
		{"schedule", ours + "runner", "schedule may not import runner"},
		{"backends", ours + "backends/redis", "backends may not import backends/redis"},
		{"backends", ours + "runner", "backends may not import runner"},
		{"backends/all", ours + "backends/redis", ""},
		{"backends/all", ours + "test/suite", "test/suite is for tests"},
		{"backends/redis", "github.com/redis/go-redis/v9/maintnotifications", ""},
		{"backends/redis", ours + "backends/file", "backends/redis may not import backends/file"},
		{"backends/redis/script", ours + "backends/redis/wire", ""},
		{"backends/redis", ours + "runner", "backends/redis may not import runner"},
		{"backends/redis", "github.com/redis/go-redis/v99", "backends/redis may not import github.com/redis/go-redis/v99"},
		{"backends/redis", "log/slog", "backends/redis may not import log/slog"},
		{"backends/zk", "github.com/go-zookeeper/zk", "backends/zk may not import github.com/go-zookeeper/zk"},
		{"test/suite", "testing", ""},
		{"test/suite", ours + "runner", "test/suite may not import runner"},
		{"internal/supervise", "os/exec", ""},
		{"internal/supervise/guardian", ours + "internal/boottime", ""},
		{"internal/supervise", ours + "internal/cli", "internal/supervise may not import internal/cli"},
		{"internal/metrics", "github.com/prometheus/common/expfmt", "internal/metrics may not import github.com/prometheus"},
		{"internal/metrics", ours + "internal/cli", "internal/metrics may not import internal/cli"},
		{"internal/cli", "github.com/prometheus/client_golang/prometheus", "internal/cli may not import github.com/prometheus"},
		{"internal/other", ours + "runner", "internal/other may not import runner"},
		{"internal/jobfile", ours + "runner", ""},
		{"internal/jobfile", ours + "internal/cli", "internal/jobfile may not import internal/cli"},
		{"elsewhere", "fmt", "elsewhere has no layer"},
		{"internal/util", "fmt", "util says nothing"},
		{"internal/cli/helpers", "fmt", "helpers says nothing"},
	} {
		got := strings.Join(violations(source{path: c.pkg, name: path.Base(c.pkg), imports: []string{c.imports}}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q imports %q: got %q, want %q", c.pkg, c.imports, got, c.want)
		}
	}

	linked := []source{
		{path: "", imports: []string{ours + "a"}},
		{path: "a", imports: []string{ours + "b"}},
		{path: "b", imports: []string{"testing", ours + "test/servers/deep"}},
		{path: "unreached", imports: []string{"testing"}},
	}
	if got := testCode(linked); len(got) != 2 || !strings.Contains(got[0], "b links testing") || !strings.Contains(got[1], "b links test/servers/deep") {
		t.Errorf("test code that is linked: got %q", got)
	}

	mod := "module m\n\nrequire example.com/a v1.0.0\n\nrequire (\n\tgolang.org/x/sys v0.1.0\n\texample.com/b v1.0.0 // indirect\n)\n\nreplace x => ./y\n"
	if got := unreasoned([]byte(mod)); len(got) != 2 || !strings.Contains(got[0], "example.com/a") || !strings.Contains(got[1], "replace") {
		t.Errorf("modules without a reason: got %q", got)
	}
}

// violations says what is wrong with a package's name and imports.
func violations(s source) []string {
	var found []string
	for _, name := range append(strings.Split(s.path, "/"), s.name) {
		if slices.Contains(vague, name) {
			found = append(found, fmt.Sprintf("package %s: the name %s says nothing about what it holds", s.path, name))
		}
	}
	at := layerOf(s.path)
	if at == nil {
		return append(found, fmt.Sprintf("package %s has no layer: give it one in layering_test.go", s.path))
	}
	from := cmp.Or(s.path, "main")
	for _, imported := range s.imports {
		to, own := strings.CutPrefix(imported, modulePath+"/")
		std := !strings.Contains(strings.Split(imported, "/")[0], ".")
		var allowed bool
		switch {
		case own && isTestCode(to) && !at.tests:
			found = append(found, fmt.Sprintf("%s may not import %s: %s is for tests", from, to, to))
			continue
		case own:
			allowed = matches(at.ours, to) || layerOf(to) == at
		case std:
			who, limited := restricted[imported]
			allowed = !limited || matches(who, s.path)
		default:
			allowed = matches(at.theirs, imported)
		}
		if !allowed {
			found = append(found, fmt.Sprintf("%s may not import %s (see the tables in layering_test.go)", from, to))
		}
	}
	return found
}

// testCode says what of the program, followed from main, is only for tests.
func testCode(all []source) []string {
	byPath := map[string]source{}
	for _, s := range all {
		byPath[s.path] = s
	}
	var found []string
	seen := map[string]bool{"": true}
	for queue := []string{""}; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		for _, imported := range byPath[from].imports {
			to, own := strings.CutPrefix(imported, modulePath+"/")
			if imported == "testing" || own && isTestCode(to) {
				found = append(found, fmt.Sprintf("the program is linked with test code: %s links %s", cmp.Or(from, "main"), to))
			}
			if own && !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return found
}

// unreasoned says what of go.mod has no reason in the table.
func unreasoned(mod []byte) []string {
	var found []string
	for line := range bytes.Lines(mod) {
		words := strings.Fields(strings.TrimPrefix(string(line), "require "))
		switch {
		case len(words) == 0:
		case words[0] == "replace" || words[0] == "exclude" || words[0] == "tool":
			found = append(found, fmt.Sprintf("go.mod: %s: go install of the program would not have it", strings.TrimSpace(string(line))))
		case len(words) == 2 && strings.HasPrefix(words[1], "v") && modules[words[0]] == "":
			found = append(found, fmt.Sprintf("go.mod requires %s: give the reason in layering_test.go", words[0]))
		}
	}
	return found
}

func isTestCode(pkg string) bool {
	at := layerOf(pkg)
	return at != nil && at.tests
}

func layerOf(pkg string) *layer {
	var best *layer
	for i, l := range layers {
		fits := l.path == pkg || l.path != "" && isWithin(l.path, pkg)
		if fits && (best == nil || len(l.path) > len(best.path)) {
			best = &layers[i]
		}
	}
	return best
}

func isWithin(dir, pkg string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		dir, tree := strings.CutSuffix(p, "...")
		return p == pkg || tree && (dir == "" || isWithin(strings.TrimSuffix(dir, "/"), pkg))
	})
}

// sources reads the packages of this module. It parses files instead of asking go list, so that files for
// other systems count, a package that does not compile counts, and the test cache knows what was read.
func sources(t *testing.T) []source {
	t.Helper()
	byPath := map[string]*source{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata" || isFile(file+"/go.mod")) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), ".")
		if byPath[dir] == nil {
			byPath[dir] = &source{path: dir, name: parsed.Name.Name}
		}
		if strings.HasSuffix(file, "_test.go") {
			return nil
		}
		for _, i := range parsed.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(byPath[dir].imports, imported) {
				byPath[dir].imports = append(byPath[dir].imports, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []source
	for _, dir := range slices.Sorted(maps.Keys(byPath)) {
		all = append(all, *byPath[dir])
	}
	return all
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
