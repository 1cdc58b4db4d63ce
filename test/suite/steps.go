package suite

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/waits"
)

// Patience is a time that only a hang exceeds, also on a busy machine.
var Patience = waits.Patience

// NewID returns an ID that nobody has had.
func NewID() string {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	return hex.EncodeToString(b)
}

// NewClaim returns a claim of a new holder.
func NewClaim(job string, ttl time.Duration) backends.Claim {
	return backends.Claim{Job: job, TTL: ttl, Holder: backends.Holder{ID: NewID(), Host: "host-1", PID: 4711, User: "backup"}}
}

// NewOrder returns an order of a new operator about a grant's run.
func NewOrder(kind backends.OrderKind, g backends.Grant) backends.Order {
	by := backends.Holder{ID: NewID(), Host: "desk", PID: 815, User: "jo"}
	return backends.Order{Job: g.Claim.Job, Kind: kind, By: by, Reason: "maintenance", Token: g.Token}
}

// Steps are the steps of a test that knows what a store must answer. Where nothing else is said a step asks once, and an
// answer that is not the expected one ends the test.
type Steps struct{ *testing.T }

// On returns the steps of a test.
func On(t *testing.T) Steps { return Steps{T: t} }

// Acquire makes a claim that is granted.
func (s Steps) Acquire(d backends.Backend, c backends.Claim) backends.Grant {
	s.Helper()
	g, err := d.Acquire(s.Context(), c)
	if err != nil {
		s.Fatalf("Acquire: %v", err)
	}
	return g
}

// Refused makes a claim that is refused with a verdict.
func (s Steps) Refused(d backends.Backend, c backends.Claim, want backends.Verdict) *backends.Refusal {
	s.Helper()
	g, err := d.Acquire(s.Context(), c)
	r, ok := errors.AsType[*backends.Refusal](err)
	if !ok || r.Verdict != want {
		s.Fatalf("Acquire: %+v, %v; want %s", g, err, want)
	}
	return r
}

// Renew renews a lease.
func (s Steps) Renew(d backends.Backend, g backends.Grant) backends.RenewAnswer {
	s.Helper()
	signal, err := d.Renew(s.Context(), g)
	if err != nil {
		s.Fatalf("Renew: %v", err)
	}
	return signal
}

// Lost makes a renewal that is told that the lease is lost.
func (s Steps) Lost(d backends.Backend, g backends.Grant) {
	s.Helper()
	if _, err := d.Renew(s.Context(), g); !errors.Is(err, backends.ErrLost) {
		s.Fatalf("Renew: %v, want ErrLost", err)
	}
}

// Finish ends a run that is done.
func (s Steps) Finish(d backends.Backend, g backends.Grant) {
	s.Helper()
	s.FinishAs(d, g, backends.Outcome{State: backends.Done})
}

// FinishAs ends a run.
func (s Steps) FinishAs(d backends.Backend, g backends.Grant, o backends.Outcome) {
	s.Helper()
	if err := d.Finish(s.Context(), g, o); err != nil {
		s.Fatalf("Finish: %v", err)
	}
}

// Order gives an order that is carried out.
func (s Steps) Order(d backends.Backend, o backends.Order) {
	s.Helper()
	if err := d.Order(s.Context(), o); err != nil {
		s.Fatalf("%s %s: %v", o.Kind, o.Job, err)
	}
}

// WantLost checks that an error says that the lease is lost. The test goes on if it does not.
func (s Steps) WantLost(what string, err error) {
	s.Helper()
	s.want(what, err, backends.ErrLost, "ErrLost")
}

// WantOver checks that an error says that an order comes too late. The test goes on if it does not.
func (s Steps) WantOver(what string, err error) {
	s.Helper()
	s.want(what, err, backends.ErrOver, "ErrOver")
}

func (s Steps) want(what string, err, want error, name string) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: %v, want %s", what, err, name)
	}
}

// WantUnknown checks that an error leaves the outcome open. The test goes on if it does not.
func (s Steps) WantUnknown(what string, err error) {
	s.Helper()
	if err == nil || backends.IsAnswer(err) {
		s.Errorf("%s: %v, want an unknown outcome", what, err)
	}
}

// Insist asks, each time for as long as each says, until a claim is granted, whatever is answered before. It returns the
// verdicts on the way there, without repetitions.
func (s Steps) Insist(d backends.Backend, c backends.Claim, each time.Duration) (backends.Grant, []backends.Verdict) {
	s.Helper()
	var verdicts []backends.Verdict
	for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.Context(), each)
		g, err := d.Acquire(ctx, c)
		cancel()
		if err == nil {
			return g, slices.Compact(verdicts)
		}
		if r, ok := errors.AsType[*backends.Refusal](err); ok {
			verdicts = append(verdicts, r.Verdict)
		}
		if backends.IsPermanent(err) || time.Now().After(end) {
			s.Fatalf("Acquire: %v (after %v)", err, slices.Compact(verdicts))
		}
	}
}

// Outlast claims as a runner does that waits for a holder's silence, until the claim is granted: its evidence counts from
// the reply that showed it, what it brings along from now on. Every refusal on the way must be as expected.
func (s Steps) Outlast(d backends.Backend, c backends.Claim, expected func(r *backends.Refusal) bool) backends.Grant {
	s.Helper()
	first := time.Now() // when Seen was seen, at the latest
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c.Seen.Token != 0 {
			c.Seen.For = time.Since(first)
		}
		g, err := d.Acquire(s.Context(), c)
		if err == nil {
			return g
		}
		r, ok := errors.AsType[*backends.Refusal](err)
		if !ok || !expected(r) {
			s.Fatalf("Acquire: %v (%+v), which is not the refusal to wait for", err, r)
		}
		if r.Seen.Token != c.Seen.Token || r.Seen.Beat != c.Seen.Beat {
			c.Seen, first = r.Seen, time.Now()
		}
	}
	s.Fatalf("Acquire: not granted within %v", Patience)
	return backends.Grant{}
}

// News waits for news that fits, and returns it.
func (s Steps) News(what string, ch <-chan backends.News, fits func(n backends.News) bool) backends.News {
	s.Helper()
	return s.NewsWithin(Patience, what, ch, fits)
}

// NewsWithin is News that has to come in time.
func (s Steps) NewsWithin(limit time.Duration, what string, ch <-chan backends.News, fits func(n backends.News) bool) backends.News {
	s.Helper()
	var last backends.News
	for late := time.After(limit); ; {
		select {
		case n, open := <-ch:
			if !open {
				s.Fatalf("%s: the watch has ended", what)
			}
			if fits(n) {
				return n // news that nobody has received is merged with what follows
			}
			last = n
		case <-late:
			s.Fatalf("%s: nothing that fits was told within %v, at last %+v", what, limit, last)
		}
	}
}

// Looks says whether news is a reason to look at the store.
func Looks(n backends.News) bool { return n.Look }

// EveryStep asks a driver for all that it can be asked, for Patience each, as the holder of a run that may not be there. It returns the
// errors by their steps.
func (s Steps) EveryStep(d backends.Backend, c backends.Claim) map[string]error {
	s.Helper()
	g := backends.Grant{Claim: c, Token: 1, TTL: c.TTL}
	errs := map[string]error{}
	for _, step := range []struct {
		name string
		ask  func(ctx context.Context) error
	}{ // in this order: a claim that was abandoned is refused
		{"Acquire", func(ctx context.Context) error { _, err := d.Acquire(ctx, c); return err }},
		{"Renew", func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err }},
		{"Finish", func(ctx context.Context) error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) }},
		{"Abandon", func(ctx context.Context) error { return d.Abandon(ctx, c) }},
		{"Order", func(ctx context.Context) error { return d.Order(ctx, NewOrder(backends.Stop, g)) }},
		{"Inspect", func(ctx context.Context) error { _, err := d.Inspect(ctx, c.Job); return err }},
		{"Jobs", func(ctx context.Context) error { _, err := d.Jobs(ctx); return err }},
	} {
		ctx, cancel := context.WithTimeout(s.Context(), Patience)
		errs[step.name] = step.ask(ctx)
		cancel()
	}
	return errs
}
