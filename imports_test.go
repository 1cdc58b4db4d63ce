package main

import (
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

// A panic in a goroutine ends the program with a stack, past every rule of ours, unless it was started with care.
func TestGoroutinesBeginWhereTheirPanicsAreCaught(t *testing.T) {
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		product := !isTestCode(path.Dir(name)) && matches("backends/... fence/... internal/... runner schedule/...", path.Dir(name))
		if !product || slices.ContainsFunc(bareGoroutines, func(free string) bool { return strings.HasPrefix(name, free) }) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s begins a goroutine by itself: panics.Go does that", name)
			case *ast.CallExpr:
				if f := calledAside(n); f != nil && !isCaught(f) {
					t.Errorf("%s has a function called in a goroutine of its own: panics.Caught makes one of it whose panic is caught", name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// calledAside returns what a call of the standard library calls in a goroutine of its own, or nil.
func calledAside(call *ast.CallExpr) ast.Expr {
	of, ok := call.Fun.(*ast.SelectorExpr)
	switch {
	case !ok || len(call.Args) == 0:
	case of.Sel.Name == "AfterFunc": // of packages context and time
		return call.Args[len(call.Args)-1]
	case of.Sel.Name == "Go" && !isNamed(of.X, "panics"): // of sync.WaitGroup
		return call.Args[0]
	}
	return nil
}

// isCaught says whether the panic of a function is caught, or it can have none: it ends a context, or ends or limits a connection.
func isCaught(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.CallExpr:
		of, ok := f.Fun.(*ast.SelectorExpr)
		return ok && isNamed(of.X, "panics") && of.Sel.Name == "Caught"
	case *ast.FuncLit:
		if len(f.Body.List) == 0 {
			return true
		}
		first := f.Body.List[0]
		if catch, ok := first.(*ast.DeferStmt); ok {
			of, ok := catch.Call.Fun.(*ast.SelectorExpr)
			return ok && isNamed(of.X, "panics") && of.Sel.Name == "Catch"
		}
		only, ok := first.(*ast.AssignStmt)
		if !ok || len(f.Body.List) != 1 {
			return false
		}
		call, ok := only.Rhs[0].(*ast.CallExpr)
		if !ok {
			return false
		}
		of, ok := call.Fun.(*ast.SelectorExpr)
		return ok && slices.Contains([]string{"Close", "CloseWithError", "SetDeadline"}, of.Sel.Name)
	}
	return isNamed(f, "cancel")
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
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
		{"internal/cli", ours + "backends/redis", "internal/cli may not import backends/redis"},
		{"internal/cli", ours + "test/servers", "test/servers is for tests"},
		{"runner", ours + "backends", ""},
		{"runner", ours + "backends/file", "runner may not import backends/file"},
		{"runner", "testing", "runner may not import testing"},
		{"backends", ours + "backends/redis", "backends may not import backends/redis"},
		{"backends/all", ours + "backends/redis", ""},
		{"backends/redis", "github.com/redis/go-redis/v9/maintnotifications", ""},
		{"backends/redis", ours + "backends/file", "backends/redis may not import backends/file"},
		{"backends/redis/script", ours + "backends/redis/wire", ""},
		{"backends/redis", "github.com/redis/go-redis/v99", "backends/redis may not import github.com/redis/go-redis/v99"},
		{"backends/redis", "log/slog", "backends/redis may not import log/slog"},
		{"test/suite", "testing", ""},
		{"internal/supervise", "os/exec", ""},
		{"internal/metrics", "github.com/prometheus/common/expfmt", ""},
		{"internal/cli", "github.com/prometheus/client_golang/prometheus", "internal/cli may not import github.com/prometheus"},
		{"internal/other", ours + "runner", "internal/other may not import runner"},
		{"internal/filename", ours + "internal/flock", "internal/filename may not import internal/flock"},
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
}

// violations says what is wrong with a package's name and imports.
func violations(s source) []string {
	var found []string
	for _, name := range append(strings.Split(s.path, "/"), s.name) {
		if slices.Contains(vague, name) {
			found = append(found, fmt.Sprintf("package %s: the name %s says nothing about what it holds", s.path, name))
		}
	}
	layer, known := layerOf(s.path)
	if !known {
		return append(found, fmt.Sprintf("package %s has no layer: give it one in layering_test.go", s.path))
	}
	from := cmp.Or(s.path, "main")
	for _, imported := range s.imports {
		to, own := strings.CutPrefix(imported, modulePath+"/")
		if own && isTestCode(to) && !isTestCode(s.path) {
			found = append(found, fmt.Sprintf("%s may not import %s: %s is for tests", from, to, to))
			continue
		}
		theirs := strings.Contains(strings.Split(to, "/")[0], ".")
		allowed := matches(layers[layer], to)
		if who, limited := restricted[to]; limited {
			allowed = matches(who, s.path)
		} else if own {
			below, _ := layerOf(to)
			allowed = allowed || below == layer
		} else {
			allowed = allowed || !theirs || matches(layers[layer], "others")
		}
		if !allowed {
			found = append(found, fmt.Sprintf("%s may not import %s (see layering_test.go)", from, to))
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

func isTestCode(pkg string) bool { return matches(testOnly, pkg) }

// layerOf returns the path of the layer in which a package is.
func layerOf(pkg string) (layer string, known bool) {
	for path := pkg; path != "."; path = filepath.Dir(path) {
		if _, known := layers[path]; known || isLeaf(path) {
			return path, true
		}
	}
	return "", false
}

// isLeaf says whether a path is that of an internal/NAME.
func isLeaf(path string) bool { return filepath.Dir(path) == "internal" }

func isWithin(dir, pkg string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// matches says whether a package is among those that a layer names.
func matches(patterns, pkg string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool {
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
