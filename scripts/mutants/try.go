package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// order is what the process that tries one mutant is told, on its command line.
type order struct {
	Name     string
	Packages []string
	Hint     string
	Dir      string   // for its files
	Awake    []string // the environment in which the mutant is awake in the build of many; nil: it is in none
	Binary   string   // the tests of that build, of the package in Folder; "": they are to be built
	Folder   string
}

func (o order) text() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // there is nothing in it that has no form
	}
	return string(text)
}

// tryOne prints what catches a mutant.
func tryOne(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := tree.Adopt(); err != nil {
		return err
	}
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == strings.TrimSuffix(o.Name, ", with slots") })
	if i < 0 {
		return fmt.Errorf("there is no mutant %q", o.Name)
	}
	by, err := o.try(mutants[i])
	if by == "" {
		by = nothing
	}
	fmt.Print(by)
	return err
}

// try returns what catches the mutant, or "". Where a hint names a test, that is tried alone before all others, and where there is a
// build with many mutants, first of all in that. What does not fail there proves nothing: a process whose environment the test
// has chosen does not know that its rule is broken.
func (o order) try(m mutant) (by string, err error) {
	hinted := slices.Clone(o.Packages)
	if o.Hint != "" {
		hinted = append(hinted, "-run", o.Hint)
	}
	switch {
	case o.Binary != "":
		by, err = caught(o.run())
	case o.Awake != nil:
		by, err = caught(goTest(hinted, o.Awake))
	}
	if by != "" || err != nil {
		return by, err
	}
	environment, err := m.alone(o.Dir)
	if err != nil {
		return "", err
	}
	if o.Hint != "" {
		if by, err := caught(goTest(hinted, environment)); by != "" || err != nil {
			return by, err
		}
	}
	return caught(goTest(o.Packages, environment))
}

// alone writes the files of a build with this mutant only, and returns the environment in which the go command reads them.
func (m mutant) alone(dir string) (environment []string, err error) {
	path, err := filepath.Abs(m.file)
	if err != nil {
		return nil, err
	}
	good, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(good), m.old); n != 1 {
		return nil, fmt.Errorf("%s has %d places that read %q", m.file, n, m.old)
	}
	prefix := filepath.Join(dir, fmt.Sprint(numbers[m.name]))
	bad, overlay := prefix+filepath.Ext(path), prefix+".json"
	if err := os.WriteFile(bad, []byte(strings.Replace(string(good), m.old, m.bad, 1)), 0o600); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: bad}})
	if err != nil {
		return nil, err
	}
	return overlaid(overlay), os.WriteFile(overlay, text, 0o600)
}

// patient is how long a test waits that waits in vain: for less long than usual, but longer than what comes for certain takes.
const patient = "LEADERRUN_TEST_PATIENCE=30s"

// longest is how long a test may take.
const longest = "4m"

// goTest runs go test, and ends what the tests left behind.
func goTest(args, environment []string) (out []byte, err error) {
	cmd := exec.Command("go", append([]string{"test", "-vet=off", "-count", "1", "-failfast", "-timeout", longest}, args...)...)
	cmd.Env = append(append(os.Environ(), patient), environment...)
	if slices.Contains(args, inC) {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	defer sweep()
	return cmd.CombinedOutput()
}

// inC is the package whose tests need cgo: SQLite is in C.
const inC = "./fence/sqlfence"

// run runs the hinted test of a program that is compiled already, as go test would.
func (o order) run() (out []byte, err error) {
	args := []string{"-test.paniconexit0", "-test.failfast", "-test.timeout", longest}
	for _, word := range o.Packages {
		switch {
		case strings.HasPrefix(word, "./"):
		case slices.Contains([]string{"-run", "-skip", "-short", "-timeout"}, word):
			args = append(args, "-test."+word[1:])
		default:
			args = append(args, word)
		}
	}
	cmd := exec.Command(o.Binary, append(args, "-test.run", o.Hint)...)
	cmd.Dir = o.Folder
	cmd.Env = append(append(os.Environ(), patient), o.Awake...)
	defer sweep()
	return cmd.CombinedOutput()
}

// binary is the compiled tests of a package in the build with many mutants.
type binary struct {
	path, folder string
	compile      func() error // once
}

// binary returns the tests of the package that has the hinted test, compiled; nil where no test is named.
func (l *laboratory) binary(m mutant, hint string) (*binary, error) {
	folder, err := home(m.packages, hint)
	if folder == "" || err != nil {
		return nil, err
	}
	l.mu.Lock()
	b := l.binaries[folder]
	if b == nil {
		b = &binary{path: filepath.Join(l.dir, fmt.Sprintf("%d.test", len(l.binaries))), folder: folder}
		b.compile = sync.OnceValue(func() error {
			cmd := exec.Command("go", "test", "-c", "-vet=off", "-o", b.path, folder)
			cmd.Env = append(os.Environ(), l.all.environment(mutant{})...)
			if slices.Contains(m.packages, inC) {
				cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("compile the tests of %s: %w\n%s", folder, err, out)
			}
			return nil
		})
		l.binaries[folder] = b
	}
	l.mu.Unlock()
	err = b.compile()
	return b, err
}

// home returns the folder, of those that words for go test name, that has the test of a hint; "" if there is none.
func home(words []string, hint string) (string, error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(hint, "^"), "$")
	if name == "" {
		return "", nil
	}
	for _, word := range words {
		folder, below := strings.CutSuffix(word, "/...")
		if !strings.HasPrefix(folder, "./") {
			continue
		}
		files, err := filepath.Glob(folder + "/*_test.go")
		if below && err == nil {
			deeper, _ := filepath.Glob(folder + "/*/*_test.go")
			files = append(files, deeper...)
		}
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			if strings.Contains(string(text), "\nfunc "+name+"(") {
				return "./" + filepath.Dir(file), nil
			}
		}
	}
	return "", nil
}

// sweep ends what a broken guardian left behind. It would take the machine from the tests that come after.
func sweep() {
	sweeper := tree.NewSweeper()
	for {
		if found, _ := sweeper.Kill(tree.Work{Roots: []int{os.Getpid()}, Scan: true}); found == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	for { // what ended is ours to wait for
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

// failed finds the tests that failed: under the first one come those in it. hung finds the test that was at work at the end of
// the time; broken the first invariant that a bed saw broken, and at which fault.
var (
	failed = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)|^(panic: .*)`)
	hung   = regexp.MustCompile(`(?m)^\s*running tests:\n\s+(\S+)`)
	broken = regexp.MustCompile(`(?m)^ *bed_test\.go:\d+: (I\d+'?) at \d+ ms: [^|]*?\n(?: +run:.*\n)* +blow: +(.*) of \S+ at \d+ ms`)
)

// caught returns which test failed, from what go test printed and returned, or "" if none did.
func caught(out []byte, err error) (by string, _ error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &exit):
		return "", err
	case strings.Contains(string(out), "[build failed]"):
		return "", fmt.Errorf("does not compile:\n%s", out)
	}
	if rule := broken.FindStringSubmatch(string(out)); rule != nil {
		return rule[1] + ": " + rule[2], nil
	}
	matches := failed.FindAllStringSubmatch(string(out), -1)
	if matches == nil {
		return "", fmt.Errorf("no test failed, yet go test did:\n%s", out)
	}
	name, panicked := matches[0][1], strings.TrimSpace(matches[0][2])
	for _, inner := range matches[1:] {
		if strings.HasPrefix(inner[1], name+"/") {
			name = inner[1]
		}
	}
	if at := hung.FindStringSubmatch(string(out)); panicked != "" && at != nil {
		return at[1] + ": " + panicked, nil
	}
	return name + panicked, nil
}
