// Package remedy has the error that tells what to do about it.
package remedy

import (
	"errors"
	"fmt"
)

// Error is a failure that no retry mends: somebody has to change something first. The public packages backends and fence have
// it under names of their own. Four other types carry a remedy, too: schedule.Error and redisfence.CommandError are public and tell
// their callers more than a Kind, ownership.Error is a failure only for some of its callers, and cli's fault has an exit code.
type Error struct {
	Kind Kind
	Err  error
	Hint string // the remedy, one line; may be empty
}

// Kind says what has to be changed.
type Kind int

// The kinds of errors.
const (
	Configuration Kind = iota + 1 // an address, an option, a missing table or directory, the server's kind
	Credentials                   // the user, password, key, token or certificate is refused, or lacks a right
)

// Misconfigured is an Error whose reason is an address, an option or how a server is set up, with the remedy.
func Misconfigured(hint, format string, args ...any) error {
	return &Error{Kind: Configuration, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Denied is an Error that refuses the user, password, key, token or certificate, with the remedy.
func Denied(hint, format string, args ...any) error {
	return &Error{Kind: Credentials, Err: fmt.Errorf(format, args...), Hint: hint}
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of returns the remedy of an error, or "". An error that may pass tells its remedy by a method.
func Of(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	if passing, ok := errors.AsType[interface {
		error
		Remedy() string
	}](err); ok {
		return passing.Remedy()
	}
	return ""
}
