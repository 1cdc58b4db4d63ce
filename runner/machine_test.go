package runner

import (
	"errors"
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
	read := func(names string) (all []byte) {
		files, err := filepath.Glob(names)
		for _, name := range files {
			text, failed := os.ReadFile(name)
			all, err = append(all, text...), errors.Join(err, failed)
		}
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	named := regexp.MustCompile(`\bTest\w+`).FindAllString(string(read("doc.go")), -1)
	if len(named) < 10 {
		t.Errorf("only %v are named", named)
	}
	tests := string(read("*_test.go"))
	for _, name := range named {
		if !strings.Contains(tests, "func "+name+"(") {
			t.Errorf("there is no %s", name)
		}
	}
}
