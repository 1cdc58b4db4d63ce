package sqlfence

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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
	state, code := codes(err)
	for _, f := range d.faults() {
		if f.has(state, code, err.Error()) {
			return &fence.SetupError{Kind: f.kind, Err: wrapped, Hint: f.hint}
		}
	}
	return wrapped
}

// serverCode is how the MySQL driver writes what the server said: the number, and the SQLSTATE of newer servers.
var serverCode = regexp.MustCompile(`\bError (\d+)(?: \((\w{5})\))?: `)

// codes returns the SQLSTATE of an error and the number of a MySQL server; "" where there is none.
func codes(err error) (state, code string) {
	var told interface{ SQLState() string }
	if errors.As(err, &told) {
		return told.SQLState(), ""
	}
	if m := serverCode.FindStringSubmatch(err.Error()); m != nil {
		return m[2], m[1]
	}
	return "", ""
}

// fault is a kind of error that somebody has to mend.
type fault struct {
	kind  fence.SetupKind
	codes string // SQLSTATEs, their first two places, or numbers of a MySQL server
	texts []string
	hint  string
}

func (f fault) has(state, code, text string) bool {
	for known := range strings.FieldsSeq(f.codes) {
		if known == code || known == state || len(known) == 2 && strings.HasPrefix(state, known) {
			return true
		}
	}
	for _, known := range f.texts {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}

// faults are those that the dialect's servers tell.
func (d Dialect) faults() []fault {
	install := "`leaderrun fence sql --dialect " + string(d) + "` prints what to install there"
	const (
		grant   = "the user needs the right to read and write leaderrun_fence and leaderrun_done"
		primary = "connect to the primary, and not in a read-only transaction"
	)
	switch d {
	case PostgreSQL:
		return []fault{
			{kind: fence.Configuration, codes: "42P01 3F000 42703 42P10", hint: install},
			{kind: fence.Credentials, codes: "42501", hint: grant},
			{kind: fence.Credentials, codes: "28", hint: "see the user and password of the connection"},
			{kind: fence.Configuration, codes: "25006", hint: primary},
			{kind: fence.Configuration, codes: "3D000", hint: "see the name of the database"},
			{kind: fence.Configuration, codes: "42601 1064", hint: "is it a PostgreSQL database?"},
		}
	case MySQL:
		return []fault{
			{kind: fence.Configuration, codes: "1146 1054", hint: install},
			{kind: fence.Credentials, codes: "1044 1142 1143 1227", hint: grant},
			{kind: fence.Credentials, codes: "1045 1698 28", hint: "see the user and password of the connection"},
			{kind: fence.Configuration, codes: "1290 1792 1836", hint: primary},
			{kind: fence.Configuration, codes: "1046 1049", hint: "see the name of the database"},
			{kind: fence.Configuration, codes: "1064 42601", hint: "is it a MySQL or MariaDB database?"},
		}
	}
	return []fault{
		{kind: fence.Configuration, texts: []string{"no such table", "no such column", "has no column named"}, hint: install},
		{kind: fence.Credentials, texts: []string{"readonly database"}, hint: "the user needs the right to write the file and its folder"},
		{kind: fence.Configuration, texts: []string{"unable to open database file", "file is not a database"}, hint: "see the path of the database"},
		{kind: fence.Configuration, texts: []string{"syntax error"}, hint: "is it an SQLite database?"},
	}
}
