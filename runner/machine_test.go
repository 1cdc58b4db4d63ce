package runner

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What decides has no input but a step's: no clock, no channel, no goroutine, no context, no lot, no log.
func TestTheMachineIsPure(t *testing.T) {
	for _, name := range []string{"machine.go", "candidate.go", "lease.go", "start.go", "run.go", "release.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			switch path, _ := strconv.Unquote(spec.Path.Value); path {
			case "context", "sync", "sync/atomic", "math/rand/v2", "crypto/rand", "net", "io":
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s has a %T", name, n)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && (x.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since" || n.Sel.Name == "Until") ||
					x.Name == "slog" && strings.HasPrefix(n.Sel.Name, "Log") || x.Name == "os" && n.Sel.Name != "File") {
					t.Errorf("%s calls %s.%s", name, x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// The package comment names the tests that fail where an invariant is broken.
func TestTheTestsOfTheInvariantsExist(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(source)
	}
	named := regexp.MustCompile(`\bTest\w+`).FindAllString(string(text), -1)
	if len(named) < 10 {
		t.Errorf("only %v are named", named)
	}
	for _, name := range named {
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("there is no %s", name)
		}
	}
}
