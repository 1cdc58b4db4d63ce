// Package jobfile reads the jobs of `leaderrun cron`: from a YAML file, or from a crontab.
//
// Both are read strictly. What a file means must be plain before anything runs, so a key, a variable or a line that
// is not understood is a problem, and all problems of a file are found at once. Nothing of a file with a problem is
// to be run. What is well understood and yet may surprise is a warning.
//
// # Crontabs
//
// Lines mean what they mean to cron of Debian, crontab(5): which text is a variable, what quotes do, where a
// variable begins to count, and what \ and % do in a command. The tests have the cases, as that program answers
// them. The differences:
//
//   - A job is named in a comment "# job: NAME" right above its line, else its name is derived from its command.
//   - NAME= sets an empty value, and the last line needs no newline; cron ignores the whole file.
//   - The name of a variable is made of letters, digits and _; cron takes any text.
//   - CRON_TZ and RANDOM_DELAY are understood, as in cronie, and @every D.
//   - Windows line ends, @reboot and six fields are refused, and a system crontab's user column unless it is asked for.
//   - MAILTO and its kin reach the command and do nothing else: output is the daemon's own.
package jobfile

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	lines "github.com/leaderrun/leaderrun/internal/crontab"
)

// maxSize is far more than any file needs: ten thousand jobs are about 2 MB.
const maxSize = 16 << 20

// File is what was read without a problem.
type File struct {
	Path     string    // of Parse
	Jobs     []*Job    // in the order of the files, at least one; names differ
	Warnings []Problem // in the order of the files
}

// Problem is what is wrong with one place of a file, or worth a warning.
type Problem struct {
	Place string // FILE:LINE, or FILE where it is about the whole
	What  string // the job and key, as far as there are
	Why   string // one line
	Hint  string // the remedy; may be empty

	line int
}

// String is the problem in one line.
func (p Problem) String() string {
	parts := slices.DeleteFunc([]string{p.Place, p.What, p.Why, p.Hint}, func(part string) bool { return part == "" })
	return strings.Join(parts, ": ")
}

// Error has all problems of a file, in the order of its lines; at least one.
type Error struct{ Problems []Problem }

// Error is the first problem in one line, and how many more there are.
func (e *Error) Error() string {
	text := e.Problems[0].String()
	if n := len(e.Problems) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Parse reads the text of a job file: YAML if path ends in .yaml or .yml, else a crontab. The error is an *Error.
// No input panics.
func Parse(path string, text []byte, defaults Defaults) (*File, error) {
	return parse(path, text, defaults, lines.ThisHost())
}

func parse(path string, text []byte, defaults Defaults, host lines.Host) (*File, error) {
	r := newReader(path, defaults)
	r.readText(text, host)
	if len(r.problems) > 0 {
		return nil, &Error{Problems: inOrder(r.problems)}
	}
	return &File{Path: path, Jobs: r.jobs, Warnings: inOrder(r.warnings)}, nil
}

func (r *reader) readText(text []byte, host lines.Host) {
	switch at := bytes.IndexByte(text, 0); {
	case at >= 0:
		r.problem(lineOf(text, at), "", "there is a zero byte in it", "a job file is plain text")
	case isYAML(r.path) && r.how.System:
		r.problem(0, "", "a job file has no column for users", "give it to a daemon of its own, without --system")
	case isYAML(r.path):
		r.readYAML(text)
	default:
		r.readCrontab(text, host)
	}
}

func isYAML(path string) bool {
	ending := strings.ToLower(filepath.Ext(path))
	return ending == ".yaml" || ending == ".yml"
}

// lineOf is the number of the line that an offset is in.
func lineOf(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }

func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.line, b.line) })
	return problems
}
