package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// outage is a store that does not answer for a while.
type outage struct {
	*memStore

	from, to time.Time
	asked    int // while it was away
	then     error
}

func (o *outage) away() error {
	switch now := time.Now(); {
	case now.Before(o.from):
		return nil
	case now.Before(o.to):
		o.asked++
		return errors.New("connection refused")
	}
	return o.then
}

func (o *outage) Jobs(ctx context.Context) ([]string, error) {
	if err := o.away(); err != nil {
		return nil, err
	}
	return o.memStore.Jobs(ctx)
}

// Hazard: somebody watches while the store is restarted, and reads what was true before.
func TestStatusWatchOutlivesAnOutage(t *testing.T) {
	refused := &backends.PermanentError{Kind: backends.Credentials, Err: errors.New("wrong password"), Hint: "correct it"}
	for _, c := range []struct {
		watch bool
		then  error
		code  int
		said  string
	}{
		{watch: false, code: 69},
		{watch: true, code: 0, said: "leaderrun: the backend cannot be reached: connection refused\n" +
			"hint: it is asked again and again: an interrupt ends that\nleaderrun: the backend answers again\n"},
		{watch: true, then: refused, code: 77, said: "leaderrun: the backend cannot be reached: connection refused\n" +
			"hint: it is asked again and again: an interrupt ends that\n"},
	} {
		atDesk(t, backends.ByUntil, func(d *desk) {
			var shown strings.Builder
			d.stdout = &shown
			begun := time.Now()
			store := &outage{memStore: d.store, from: begun, to: begun.Add(time.Minute), then: c.then}
			ctx, cancel := context.WithTimeout(d.Context(), 2*time.Minute)
			defer cancel()
			err := d.followStatus(ctx, store, false, c.watch)
			d.console.close()
			if code := errorCode(err); err != nil && code != c.code || err == nil && c.code != 0 {
				d.Errorf("watch %v: ended with %d: %v", c.watch, code, err)
			}
			if d.said.String() != c.said {
				d.Errorf("watch %v: said %q", c.watch, d.said.String())
			}
			if tables := strings.Count(shown.String(), "no jobs yet"); (tables > 0) != (c.code == 0) || c.watch && store.asked < 10 {
				d.Errorf("watch %v: shown %d times, asked %d times", c.watch, tables, store.asked)
			}
		})
	}
}

// Hazard: whoever may ask whether the daemon is ready learns where the store is, and as whom it is asked.
func TestReadyzTellsNothingOfTheBackend(t *testing.T) {
	atDesk(t, backends.ByUntil, func(d *desk) {
		store := &outage{memStore: d.store}
		s := &service{call: d.call, store: &unreadable{store, nil}}
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
			s.store = &unreadable{store, c.err}
			got := ""
			if err := s.answers(d.Context()); err != nil {
				got = err.Error()
			}
			if got != c.want {
				d.Errorf("%v: %q", c.err, got)
			}
		}
		if s.draining.Store(true); s.ready(d.Context()) == nil {
			d.Error("it is ready while it drains")
		}
		d.console.close()
		line := "leaderrun: /readyz answers 503: dial tcp 10.1.2.3:5432: user=jane: refused\n"
		if d.said.String() != line+line {
			d.Errorf("the log: %q", d.said.String())
		}
	})
}

// unreadable is a store that says of every job the same.
type unreadable struct {
	*outage

	err error
}

func (u *unreadable) Inspect(context.Context, string) (backends.Status, error) {
	return backends.Status{}, u.err
}
