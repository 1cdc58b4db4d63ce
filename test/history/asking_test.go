package history

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
)

// Each of these asks the store once and notes what was asked and answered.

func (c *client) claims(claim backends.Claim) (backends.Grant, error) {
	q := c.claim(claim)
	var g backends.Grant
	err := c.once(&q, func(ctx context.Context) (err error) {
		g, err = c.driver.Acquire(ctx, claim)
		return err
	})
	c.done(q, c.answer(g, err))
	return g, err
}

func (c *client) renews(g backends.Grant) {
	q := c.grant(renews, g)
	err := c.once(&q, func(ctx context.Context) error {
		_, err := c.driver.Renew(ctx, g)
		return err
	})
	c.done(q, answered(err))
}

func (c *client) finishes(g backends.Grant, o backends.Outcome) reply {
	q := c.grant(finishes, g)
	q.outcome = o.State
	err := c.once(&q, func(ctx context.Context) error { return c.driver.Finish(ctx, g, o) })
	return c.done(q, answered(err))
}

func (c *client) abandons(claim backends.Claim) reply {
	q := request{step: abandons, holder: c.number(claim.Holder.ID)}
	err := c.once(&q, func(ctx context.Context) error { return c.driver.Abandon(ctx, claim) })
	return c.done(q, answered(err))
}

// dies does what the kernel does for a holder that is killed.
func (c *client) dies(g backends.Grant) {
	if c.expires {
		return // nobody notices
	}
	q := c.grant(dies, g)
	q.call = boottime.Now()
	for _, f := range slices.Concat(g.Hold, g.Inherit) {
		_ = f.Close()
	}
	c.done(q, reply{verdict: ok})
}

// once asks, and gives up after a while that is short for a store in trouble, and now and then for any.
func (c *client) once(q *request, ask func(context.Context) error) error {
	wait := 100*time.Millisecond + c.upTo(500*time.Millisecond)
	if c.random.IntN(20) == 0 {
		wait = c.upTo(5 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait) // what was begun is brought to an end
	defer cancel()
	q.call = boottime.Now()
	err := ask(ctx)
	if permanent, ok := errors.AsType[*backends.PermanentError](err); ok {
		c.t.Errorf("%s: %v", q.step, permanent)
	}
	return err
}

func (c *client) done(q request, r reply) reply {
	r.at = boottime.Now()
	c.note(c.id, q, r)
	return r
}

func refusalOf(err error) *backends.Refusal {
	r, _ := errors.AsType[*backends.Refusal](err)
	return r
}
