package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// How long a store is asked, and how often in that time.
const (
	StatusPatience = 10 * time.Second
	StatusTries    = 4
)

// Answered makes what a store says of a job a fault with an exit code. A refusal, and that there is nothing left to
// do, are for the caller to judge.
func Answered(store backends.Backend, job string, err error) error {
	switch {
	case err == nil, errors.Is(err, backends.ErrOver):
		return err
	case errors.Is(err, backends.ErrUnknownJob):
		return UnknownJob(store, job)
	case backends.IsAnswer(err):
		return err
	}
	return Asked(err)
}

// Asked makes an error of a backend that was asked something a fault with an exit code. An error that is
// not permanent means that there was no answer.
func Asked(err error) error {
	if _, told := errors.AsType[*Fault](err); told || backends.IsPermanent(err) {
		return err
	}
	return &Fault{
		Code: CodeUnavailable, What: "the backend cannot be reached", Why: err.Error(), Err: err,
		Hint: "`leaderrun doctor` looks for the reason",
	}
}

// Patiently asks a store a few times while it does not answer: where it has several hosts, the next request goes to
// another one.
func Patiently(ctx context.Context, request func(context.Context) error) error {
	return Tries(ctx, StatusPatience/StatusTries, request)
}

// Tries is Patiently, with a limit for each request.
func Tries(ctx context.Context, limit time.Duration, request func(context.Context) error) (err error) {
	for range StatusTries {
		limited, cancel := context.WithTimeout(ctx, limit)
		err = request(limited)
		cancel()
		if err == nil || backends.IsAnswer(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// UnknownJob is the fault of names that the store does not know.
func UnknownJob(store backends.Backend, names ...string) error {
	asking := "asked " + store.Redacted()
	if prefix := store.Prefix(); prefix != "" {
		asking += fmt.Sprintf(", prefix %q", prefix)
	}
	return &Fault{
		Code: codeUnknownJob, What: "unknown job", Why: strings.Join(names, ", "), Err: backends.ErrUnknownJob,
		Hint: asking + "; `leaderrun status` shows the jobs there",
	}
}
