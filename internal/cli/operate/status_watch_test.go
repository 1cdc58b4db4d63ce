package operate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
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
			d.Stdout = &shown
			begun := time.Now()
			store := &outage{memStore: d.store, from: begun, to: begun.Add(time.Minute), then: c.then}
			ctx, cancel := context.WithTimeout(d.Context(), 2*time.Minute)
			defer cancel()
			err := followStatus(ctx, d.Call, store, false, c.watch)
			d.Console.Close()
			if code := cli.ErrorCode(err); err != nil && code != c.code || err == nil && c.code != 0 {
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
