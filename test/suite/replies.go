package suite

import (
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Repeat goes through the life of two claims with steps whose replies are lost: each is repeated as it was, and arrives
// once. Before a step, rearm makes a reply to d get lost again. The job has had three runs then, the last one by other.
func (s Steps) Repeat(d, other backends.Backend, c backends.Claim, rearm func()) {
	s.Helper()
	insist := func(what string, f func() error) {
		s.Helper()
		rearm()
		var err error
		for range 4 {
			if err = f(); err == nil {
				return
			}
			if backends.IsAnswer(err) {
				s.Fatalf("%s: %s: %v", c.Job, what, err)
			}
		}
		s.Fatalf("%s: %s never succeeds: %v", c.Job, what, err)
	}
	another := func() backends.Claim { return NewClaim(c.Job, c.TTL) }
	var g backends.Grant
	insist("Acquire", func() (err error) { g, err = d.Acquire(s.Context(), c); return err })
	insist("Renew", func() error { _, err := d.Renew(s.Context(), g); return err })
	s.Refused(other, another(), backends.Held)
	insist("Finish", func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) })
	abandoned := another()
	insist("Acquire", func() (err error) { g, err = d.Acquire(s.Context(), abandoned); return err })
	insist("Abandon", func() error { return d.Abandon(s.Context(), abandoned) })
	s.Finish(other, s.Acquire(other, another()))
}

// Survives goes on with a run whose store is about to answer again, after a change of its leader, say. A step may go
// unanswered until then; what is answered shows that the lease is where it was.
func (s Steps) Survives(d, other backends.Backend, g backends.Grant) {
	s.Helper()
	insist := func(what string, f func(ctx context.Context) error) {
		s.Helper()
		for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
			err := f(ctx)
			cancel()
			if err == nil {
				return
			}
			if backends.IsAnswer(err) || time.Now().After(end) {
				s.Fatalf("%s: %v", what, err)
			}
		}
	}
	insist("Renew", func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err })
	insist("refused", func(ctx context.Context) error {
		second, err := other.Acquire(ctx, NewClaim(g.Claim.Job, g.TTL))
		if err == nil {
			s.Fatalf("Acquire: %+v, want %s", second, backends.Held)
		}
		if r, ok := errors.AsType[*backends.Refusal](err); ok && r.Verdict == backends.Held {
			return nil
		}
		return err
	})
	insist("Finish", func(ctx context.Context) error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) })
}
