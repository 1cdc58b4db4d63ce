package kubernetes

import (
	"context"
	"sync/atomic"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

// counted counts the calls of a driver, each of which is one request (TestOneCallIsOneRequest).
type counted struct {
	client
	calls atomic.Int32
}

func (c *counted) Get(ctx context.Context, name string) (*api.Lease, error) {
	c.calls.Add(1)
	return c.client.Get(ctx, name)
}

func (c *counted) Create(ctx context.Context, l *api.Lease) (*api.Lease, error) {
	c.calls.Add(1)
	return c.client.Create(ctx, l)
}

func (c *counted) Update(ctx context.Context, l *api.Lease) (*api.Lease, error) {
	c.calls.Add(1)
	return c.client.Update(ctx, l)
}

func (c *counted) Allowed(ctx context.Context, verb string) (bool, error) {
	c.calls.Add(1)
	return c.client.Allowed(ctx, verb)
}

// roundTrips: what docs/design/benchmarks.md says that a step takes.
func roundTrips(w *world) {
	c := &counted{client: w.d.client}
	w.d.client = c
	var g backends.Grant
	claim := newClaim("job")
	for _, step := range []struct {
		name string
		want int32
		do   func()
	}{
		{"the first claim", 3, func() { g = w.Acquire(w.d, claim) }},
		{"a renewal", 1, func() { w.Renew(w.d, g) }},
		{"another renewal", 1, func() { w.Renew(w.d, g) }},
		{"a claim that is refused", 1, func() { w.Refused(w.d, newClaim("job"), backends.Held) }},
		{"an end", 1, func() { w.Finish(w.d, g) }},
		{"an end that is repeated", 1, func() { w.Finish(w.d, g) }},
		{"a later claim", 2, func() { g = w.Acquire(w.d, newClaim("job")) }},
		{"a claim taken back", 2, func() {
			if err := w.d.Abandon(w.Context(), g.Claim); err != nil {
				w.Fatal(err)
			}
		}},
	} {
		before := c.calls.Load()
		step.do()
		if n := c.calls.Load() - before; n != step.want {
			w.Errorf("%s: %d round trips, want %d", step.name, n, step.want)
		}
	}
}
