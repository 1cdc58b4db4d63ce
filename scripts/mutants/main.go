// Mutants breaks the safety rules of leaderrun one at a time and runs the tests that must notice. It prints a
// table and fails if a mutant survives, or if the text that it replaces is not there any more.
//
//	go run ./scripts/mutants [-bed] [-record] [NAME…]
//	go run ./scripts/mutants -turn N/M [-taken FOLDER] [-record]
//
// -turn runs one of M parts of them, another one for each of M successive numbers: CI does so with three. It takes for granted that
// the tests pass on what is not broken, and tries first the test that caught the mutant before, according to caught.md. -record
// writes there what catches them now. Three parts that run at the same time share a FOLDER, empty at first, in which each says what it
// has taken: when its own mutants are done it takes those of the others, the last ones first.
//
// Nothing is written to the source tree: the compiler reads the broken file in place of the good one. Where there are many mutants,
// they are tried in one build that has them all, and a variable of the environment wakes one. One that survives there, or cannot
// be in it, is tried in a build of its own.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

func main() {
	bed := flag.Bool("bed", false, "those that a whole bed must notice")
	record := flag.Bool("record", false, "write down what caught them")
	turn := flag.String("turn", "", "part `N/M` of them")
	taken := flag.String("taken", "", "`FOLDER` of the parts that run at the same time")
	flag.Parse()
	if err := run(*bed, *record, *turn, *taken, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(bed, record bool, turn, taken string, names []string) error {
	if err := tree.Adopt(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leaderrun-mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	known, err := readCaught(page)
	if err != nil {
		return err
	}
	chosen, err := choose(bed, names)
	if turn != "" {
		chosen, err = ofTurn(turn)
	}
	if err == nil && taken != "" {
		chosen, err = withOthers(chosen, turn)
	}
	if err != nil {
		return err
	}
	var all *together
	if len(chosen) >= many {
		if all, err = newTogether(dir); err != nil {
			return err
		}
	}
	if turn == "" && !record {
		if err := passes(chosen, all); err != nil {
			return err
		}
	}
	fmt.Print("| rule that is broken | caught by | after |\n| --- | --- | --- |\n")
	survivors := 0
	for _, m := range chosen {
		if isMine, err := take(taken, m); err != nil {
			return err
		} else if !isMine {
			continue
		}
		began := time.Now()
		by, err := m.test(dir, hint(known[m.name]), all)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if by == "" {
			by = "**nothing**"
			survivors++
		} else if record {
			if err := writeCaught(page, m.name, by); err != nil {
				return err
			}
		}
		fmt.Printf("| %s | %s | %.0f s |\n", m.name, by, time.Since(began).Seconds())
	}
	if survivors > 0 {
		return fmt.Errorf("%d mutants survived", survivors)
	}
	return nil
}

// many mutants are worth a build with all of them.
const many = 10

// ofTurn returns the mutants of part N of M. Neighbors in the list break the same package, and belong to different parts.
func ofTurn(turn string) ([]mutant, error) {
	var n, m int
	if _, err := fmt.Sscanf(turn, "%d/%d", &n, &m); err != nil || n < 0 || m < 1 {
		return nil, fmt.Errorf("-turn is followed by N/M, as in 3/10, not %q", turn)
	}
	var chosen []mutant
	for i, one := range mutants {
		if i%m == n%m {
			chosen = append(chosen, one)
		}
	}
	// Parts that run side by side begin at different places, or each would compile at the same time what one could for all.
	begin := len(chosen) * (n % 3) / 3
	return slices.Concat(chosen[begin:], chosen[:begin]), nil
}

// withOthers adds to the mutants of a part those of the two that run at the same time.
func withOthers(chosen []mutant, turn string) ([]mutant, error) {
	var n, m int
	if _, err := fmt.Sscanf(turn, "%d/%d", &n, &m); err != nil {
		return nil, errors.New("-taken needs a -turn")
	}
	for other := n - n%3; other < n-n%3+3; other++ {
		if other == n {
			continue
		}
		theirs, err := ofTurn(fmt.Sprintf("%d/%d", other, m))
		if err != nil {
			return nil, err
		}
		slices.Reverse(theirs)
		chosen = slices.Concat(chosen, theirs)
	}
	return chosen, nil
}

// take says whether a mutant is to be tried here: none of those that share the folder has taken it.
func take(folder string, m mutant) (isMine bool, err error) {
	if folder == "" {
		return true, nil
	}
	f, err := os.OpenFile(filepath.Join(folder, fmt.Sprint(numbers[m.name])), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// page has the table of what catches each mutant.
const page = "scripts/mutants/caught.md"

const heading = "| rule that is broken | caught by |\n| --- | --- |\n"

// readCaught returns, by the names of mutants, what caught them before.
func readCaught(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, rows, ok := strings.Cut(string(text), heading)
	if !ok {
		return nil, fmt.Errorf("%s has no table", path)
	}
	known := map[string]string{}
	for row := range strings.Lines(rows) {
		if cells := strings.Split(strings.Trim(row, "| \n"), " | "); len(cells) == 2 {
			known[cells[0]] = cells[1]
		}
	}
	return known, nil
}

// writeCaught puts a row into the table, which has the order of the list of mutants. What is in no list any more goes.
func writeCaught(path, name, by string) error {
	known, err := readCaught(path)
	if err != nil {
		return err
	}
	known[name] = by
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, _, _ := strings.Cut(string(text), heading)
	rows := []string{before, heading}
	for _, m := range mutants {
		if by := known[m.name]; by != "" {
			rows = append(rows, "| "+m.name+" | "+by+" |\n")
		}
	}
	return os.WriteFile(path, []byte(strings.Join(rows, "")), 0o600)
}

// hint returns the pattern for go test -run of the test that is named by what caught a mutant, or "".
func hint(by string) string {
	name := test.FindString(by)
	if name == "" {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

var test = regexp.MustCompile(`(Test|Fuzz)\w+(/\S+)?`)

// passes runs the tests that are to catch the mutants without any: one that fails here would catch them all.
func passes(chosen []mutant, all *together) error {
	known := map[string]bool{}
	var environment []string
	if all != nil {
		environment = all.environment(mutant{}) // they are asleep, and no test minds that they are there
	}
	for _, m := range chosen {
		packages := strings.Join(m.packages, " ")
		if known[packages] {
			continue
		}
		known[packages] = true
		out, err := goTest(m.packages, environment)
		if err != nil {
			return fmt.Errorf("without any mutant: %w\n%s", err, out)
		}
	}
	return nil
}

// goTest runs go test, and ends what the tests left behind. A test that waits in vain does so for less long than usual: still
// longer than what comes for certain takes.
func goTest(args, environment []string) (out []byte, err error) {
	cmd := exec.Command("go", append([]string{"test", "-vet=off", "-count", "1", "-failfast", "-timeout", "4m"}, args...)...)
	cmd.Env = append(append(os.Environ(), "LEADERRUN_TEST_PATIENCE=30s"), environment...)
	if slices.Contains(args, "./fence/sqlfence") { // SQLite is in C
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	out, err = cmd.CombinedOutput()
	sweep()
	return out, err
}

// choose returns the mutants of these names; none: all. With bed they are those that a whole bed must notice.
func choose(bed bool, names []string) ([]mutant, error) {
	all := slices.Clone(mutants)
	if bed {
		all = nil
		for k, o := range slices.Concat(ordeals, dividedOrdeals) {
			i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == o.mutant })
			if i < 0 {
				return nil, fmt.Errorf("there is no mutant %q", o.mutant)
			}
			m := mutants[i]
			m.packages = o.tests()
			if k >= len(ordeals) {
				m.name += ", with slots"
				m.packages = append(m.packages, "-cast", "divided")
			}
			all = append(all, m)
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(m mutant) bool { return !slices.Contains(names, m.name) }), nil
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

// test returns the test that catches the mutant, or "". Where a hint names a test, that is tried alone before all others, and
// where there is a build with many mutants, first of all in that. What does not fail there proves nothing: a process whose
// environment the test has chosen does not know that its rule is broken.
func (m mutant) test(dir, hint string, all *together) (by string, err error) {
	hinted := append(slices.Clone(m.packages), "-run", hint)
	if all != nil && all.has[m.name] {
		args := hinted
		if hint == "" {
			args = m.packages
		}
		out, err := goTest(args, all.environment(m))
		if by, err := caught(out, err); by != "" || err != nil {
			return by, err
		}
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	good, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if strings.Count(string(good), m.old) != 1 {
		return "", fmt.Errorf("%s has %d places that read %q", m.file, strings.Count(string(good), m.old), m.old)
	}
	bad := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(bad, []byte(strings.Replace(string(good), m.old, m.bad, 1)), 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: bad}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	environment := overlaid(overlay)
	if hint != "" {
		out, err := goTest(hinted, environment)
		if by, err := caught(out, err); by != "" || err != nil {
			return by, err
		}
	}
	return caught(goTest(m.packages, environment))
}

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
