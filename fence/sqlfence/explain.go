package sqlfence

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
)

// UnknownError says that a commit was asked for and not confirmed: the transaction may be there as a whole, or not at all.
// Whoever runs it again finds out by Once.
type UnknownError struct {
	Resource string
	Err      error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s: commit: it is not known whether the transaction was committed: %v", e.Resource, e.Err)
}

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }

// EndedError says that the transaction that was checked was over before its commit: by a deadlock that was not noticed, or
// by a statement that ends it (COMMIT, ROLLBACK, INSERT OR ROLLBACK, in MySQL also CREATE and its like). What was written
// before may be there or not; what was written after was not fenced.
type EndedError struct {
	Resource string
	Err      error
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s: the transaction was over before its commit, and the fence with it (a deadlock, or a statement that ends it): "+
		"it is not known what was written: %v", e.Resource, e.Err)
}

// Unwrap returns the cause.
func (e *EndedError) Unwrap() error { return e.Err }

// uncommitted is the error of a commit. It is only known to have failed where the server says so: it found a conflict with
// another transaction, or a constraint.
func (r *Resource) uncommitted(err error) error {
	state, _ := codes(err)
	conflict := strings.HasPrefix(state, "40") && state != "40003" // 40003: the server does not know either
	if conflict || strings.HasPrefix(state, "23") {
		return fmt.Errorf("%s: commit: %w", r.name, err)
	}
	return &UnknownError{Resource: r.name, Err: err}
}

// explain is the error of a step before the commit, after which nothing is written.
func (r *Resource) explain(step string, err error) error {
	return r.dialect.explain(r.name+": "+step, err)
}

func (d Dialect) explain(step string, err error) error {
	wrapped := fmt.Errorf("%s: %w", step, err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return wrapped
	}
	for _, f := range d.engine().faults() {
		if f.symptom.of(err) {
			return &fence.SetupError{Kind: f.kind, Err: wrapped, Hint: f.hint}
		}
	}
	return wrapped
}

// serverCode is how the MySQL driver writes what the server said: the number, and the SQLSTATE of newer servers.
var serverCode = regexp.MustCompile(`\bError (\d+)(?: \((\w{5})\))?: `)

// codes returns the SQLSTATE of an error and the number of a MySQL server; "" where there is none.
func codes(err error) (state, number string) {
	var told interface{ SQLState() string }
	if errors.As(err, &told) {
		return told.SQLState(), ""
	}
	if m := serverCode.FindStringSubmatch(err.Error()); m != nil {
		return m[2], m[1]
	}
	return "", ""
}

// symptom is how an error is known. Any of what it lists is enough.
type symptom struct {
	states  []string // SQLSTATEs, or their first two places
	numbers []string // of a MySQL server
	texts   []string // of a database that gives no code
}

func (s symptom) of(err error) bool {
	state, number := codes(err)
	return slices.ContainsFunc(s.states, func(known string) bool { return strings.HasPrefix(state, known) }) ||
		slices.Contains(s.numbers, number) ||
		slices.ContainsFunc(s.texts, func(known string) bool { return strings.Contains(err.Error(), known) })
}

// fault is a kind of error that somebody has to mend.
type fault struct {
	kind    fence.SetupKind
	symptom symptom
	hint    string
}

const (
	grantHint    = "the user needs the right to read and write leaderrun_fence and leaderrun_done"
	loginHint    = "see the user and password of the connection"
	primaryHint  = "connect to the primary, and not in a read-only transaction"
	databaseHint = "see the name of the database"
)

func installHint(d Dialect) string {
	return "`leaderrun fence sql --dialect " + string(d) + "` prints what to install there"
}
