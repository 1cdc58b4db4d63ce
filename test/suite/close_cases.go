package suite

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// closingEnds: whoever closes a client is rid of what it asks, also while the store is frozen. What became of it is not
// known, and the lease is as it was: nobody else gets it.
func closingEnds(s *scene) {
	d, other := s.h.Open(s.T), s.open()
	g := s.granted(d, s.claim())
	resume := s.h.Stall(s.T)
	defer resume()

	// With a deadline no client has a limit of its own: only Close can end these.
	ctx, cancel := context.WithTimeout(s.Context(), 10*patience)
	defer cancel()
	late := s.otherJob()
	steps := map[string]func() error{
		"Acquire": func() error { _, err := d.Acquire(ctx, late); return err },
		"Renew":   func() error { _, err := d.Renew(ctx, g); return err },
		"Inspect": func() error { _, err := d.Inspect(ctx, s.job); return err },
	}
	ends := make(chan func(), len(steps))
	for what, step := range steps {
		go func() {
			err := step()
			ends <- func() { s.wantNoAnswer(what+" under a client that was closed", err) }
		}()
	}
	time.Sleep(50 * time.Millisecond) // so that they are on their way; one that is not must end as well
	s.returns("Close", func() {
		if err := d.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	s.returns("what was on its way when the client was closed", func() {
		for range steps {
			(<-ends)()
		}
	})
	resume()
	s.refusal(other, s.claim(), backends.Held)
}
