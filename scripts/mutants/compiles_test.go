package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module is the folder of go.mod, seen from here.
var module = filepath.Join("..", "..")

// A mutant that does not compile breaks nothing, and CI would say so only when its turn comes.
func TestEachMutantCompiles(t *testing.T) {
	t.Parallel()
	packages := listed(t)
	for _, m := range mutants {
		if !strings.HasSuffix(m.file, ".go") {
			continue
		}
		p := packages[filepath.Dir(m.file)]
		if p == nil {
			t.Errorf("%s: no package has %s", m.name, m.file)
			continue
		}
		if err := p.check(m); err != nil {
			t.Errorf("%s does not compile: %v", m.name, err)
		}
	}

	// A check that finds nothing may be one that cannot find anything.
	for _, bad := range []string{"var _ = nobodyDeclares", `import "os"`} {
		m := mutant{file: "internal/duration/duration.go", old: "package duration\n", bad: "package duration\n\n" + bad + "\n"}
		if packages["internal/duration"].check(m) == nil {
			t.Errorf("%q compiles", bad)
		}
	}
}

// checked is a package that is type-checked with one of its files broken.
type checked struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	ImportMap               map[string]string
	files                   map[string]*ast.File // those that are not broken
	load                    types.Importer
}

var positions = token.NewFileSet()

// listed returns the packages of the module by their folders, with what they import compiled.
func listed(t *testing.T) map[string]*checked {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,ImportMap", "./...")
	command.Dir = module
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(module)
	if err != nil {
		t.Fatal(err)
	}
	exports, ours := map[string]string{}, map[string]*checked{}
	load := importer.ForCompiler(positions, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &checked{files: map[string]*ast.File{}, load: load}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			return ours
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if folder, err := filepath.Rel(top, p.Dir); err == nil && filepath.IsLocal(folder) {
			ours[folder] = p
		}
	}
}

// Import returns a package as the one that is checked imports it.
func (p *checked) Import(path string) (*types.Package, error) {
	if mapped, ok := p.ImportMap[path]; ok {
		path = mapped
	}
	return p.load.Import(path)
}

// check type-checks the package with the mutant in it.
func (p *checked) check(m mutant) error {
	var files []*ast.File
	found := false
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		if name == filepath.Base(m.file) {
			found = true
			bad, err := parser.ParseFile(positions, name, strings.Replace(string(text), m.old, m.bad, 1), parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, bad)
			continue
		}
		if p.files[name] == nil {
			if p.files[name], err = parser.ParseFile(positions, name, text, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, p.files[name])
	}
	if !found {
		return errors.New("the package has no such file here")
	}
	_, err := (&types.Config{Importer: p, Sizes: types.SizesFor("gc", "amd64")}).Check(p.ImportPath, positions, files, nil)
	return err
}
