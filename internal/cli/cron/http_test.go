package cron

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
)

// Hazard: whoever may ask whether the daemon is ready learns where the store is, and as whom it is asked.
func TestReadyzTellsNothingOfTheBackend(t *testing.T) {
	var said bytes.Buffer
	log := &cli.Console{Out: &said, Level: slog.LevelWarn}
	s := &service{call: &cli.Call{Console: log}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{backends.ErrUnknownJob, ""},
		{errors.New("dial tcp 10.1.2.3:5432: user=jane: refused"), "the backend does not answer: the log of the daemon says why"},
		{errors.New("dial tcp 10.1.2.3:5432: user=jane: refused"), "the backend does not answer: the log of the daemon says why"},
		{
			&backends.PermanentError{Kind: backends.Credentials, Err: errors.New("jane@10.1.2.3: wrong password")},
			"the backend refuses: the log of the daemon says why",
		},
		{nil, ""},
		{errors.New("dial tcp 10.1.2.3:5432: user=jane: refused"), "the backend does not answer: the log of the daemon says why"},
	} {
		s.store = &unreadable{err: c.err}
		got := ""
		if err := s.answers(t.Context()); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q", c.err, got)
		}
	}
	if s.draining.Store(true); s.ready(t.Context()) == nil {
		t.Error("it is ready while it drains")
	}
	log.Close()
	line := "leaderrun: /readyz answers 503: dial tcp 10.1.2.3:5432: user=jane: refused\n"
	if said.String() != line+line {
		t.Errorf("the log: %q", said.String())
	}
}

// unreadable is a store that says of every job the same.
type unreadable struct {
	backends.Backend

	err error
}

func (u *unreadable) Inspect(context.Context, string) (backends.Status, error) {
	return backends.Status{}, u.err
}
