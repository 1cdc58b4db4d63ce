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
	packages, byFile := listed(t), map[string][]mutant{}
	for _, m := range mutants {
		if !strings.HasSuffix(m.file, ".go") || strings.HasSuffix(m.file, "_test.go") { // a checker of histories is a test
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
		byFile[m.file] = append(byFile[m.file], m)
	}

	// Nor would the build that has many of them in each file, which is how CI tries them.
	in := 0
	for file, all := range byFile {
		p := packages[filepath.Dir(file)]
		good, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			t.Fatal(err)
		}
		text, names := withSwitch(file, good, all)
		in += len(names)
		if len(names) == 0 {
			continue
		}
		if err := p.checkText(filepath.Base(file), string(text), "brokenRule"); err != nil {
			t.Errorf("%s with all its mutants does not compile: %v", file, err)
		}
	}
	if in < len(mutants)*4/5 {
		t.Errorf("only %d of %d mutants are in one build: the others cost much more", in, len(mutants))
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
	name := filepath.Base(m.file)
	text, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil {
		return err
	}
	return p.checkText(name, strings.Replace(string(text), m.old, m.bad, 1), "")
}

// checkText type-checks the package with another text of one of its files, and perhaps one more variable, a number.
func (p *checked) checkText(broken, text, number string) error {
	var files []*ast.File
	found := false
	for _, name := range p.GoFiles {
		if name == broken {
			found = true
			if number != "" {
				text += "\nvar " + number + " int\n"
			}
			bad, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, bad)
			continue
		}
		if p.files[name] == nil {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return err
			}
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
