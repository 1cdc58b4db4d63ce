package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	doctorRounds = 3
	otherDoctor  = 3 * time.Second        // how long the doctor of another host is waited for
	nextLook     = 200 * time.Millisecond // and how often we look whether it has gone
	leastAnswer  = 2 * time.Second        // how long an answer is waited for, at least
)

// pace is how long the slowest of each step took.
type pace struct{ claim, renewal, end time.Duration }

func (p pace) slowest() time.Duration { return max(p.claim, p.renewal, p.end) }

// tryRun claims, renews and ends a job as a run does: what is not permitted, or not possible, shows here at the latest.
func (x *doctorCall) tryRun(ctx context.Context) {
	const what = "round trip"
	var p pace
	for range doctorRounds {
		g, err := x.claim(ctx, &p)
		if err == nil {
			err = x.renewAndEnd(ctx, g, &p)
		}
		if r, refused := errors.AsType[*backends.Refusal](err); refused {
			x.refused(what, r)
			return
		}
		if err != nil {
			x.Failed(what, "`leaderrun run --log-level debug` tells more", err)
			return
		}
	}
	x.judge(what, p)
}

// judge compares the slowest step with the time that one has (TTL/6) before it counts as failed, and with the time
// after which a renewal is asked for a second time (TTL/12).
func (x *doctorCall) judge(what string, p pace) {
	const remedy = "a longer --ttl, or a server that is nearer or has less to do"
	unit := 10 * time.Microsecond
	text := "claim " + p.claim.Round(unit).String() + ", renewal " + p.renewal.Round(unit).String() + ", end " + p.end.Round(unit).String()
	limit := (x.ttl / 6).Round(time.Millisecond)
	switch slowest := p.slowest(); {
	case slowest > limit:
		x.Bad(what, remedy, "%s: one may take %v", text, limit)
	case slowest > limit/2:
		x.Warn(what, remedy, "%s: not far from the %v that one may take", text, limit)
	default:
		x.Fine(what, "%s; one may take %v", text, limit)
	}
}

// claim asks for the lease, and again while the doctor of another host has it.
func (x *doctorCall) claim(ctx context.Context, p *pace) (backends.Grant, error) {
	l := x.store.Limits()
	c := backends.Claim{Job: cli.DoctorJob, Holder: launch.ThisOperator(), TTL: max(x.ttl, l.MinTTL)}
	if l.MaxTTL > 0 {
		c.TTL = min(c.TTL, l.MaxTTL)
	}
	for end := time.Now().Add(otherDoctor); ; {
		var g backends.Grant
		err := x.timed(ctx, &p.claim, func(ctx context.Context) (err error) {
			g, err = x.store.Acquire(ctx, c)
			return err
		})
		r, refused := errors.AsType[*backends.Refusal](err)
		switch {
		case err == nil:
			return g, nil
		case !refused:
			x.tidy(ctx, func(ctx context.Context) error { return x.store.Abandon(ctx, c) })
			return g, err
		case r.Verdict != backends.Held || time.Now().After(end):
			return g, err
		}
		select {
		case <-time.After(nextLook):
		case <-ctx.Done():
			return g, context.Cause(ctx)
		}
	}
}

// renewAndEnd does not leave the lease behind, whatever else fails.
func (x *doctorCall) renewAndEnd(ctx context.Context, g backends.Grant, p *pace) error {
	err := x.timed(ctx, &p.renewal, func(ctx context.Context) error {
		_, err := x.store.Renew(ctx, g)
		return err
	})
	finish := func(ctx context.Context) error { return x.store.Finish(ctx, g, backends.Outcome{State: backends.Done}) }
	if err == nil {
		err = x.timed(ctx, &p.end, finish)
	}
	if err != nil {
		x.tidy(ctx, finish)
	}
	return err
}

// timed repeats a step while nobody answers, as a run does. It notes how long the answer took, if that was longer than before.
func (x *doctorCall) timed(ctx context.Context, slowest *time.Duration, step func(context.Context) error) error {
	return cli.Tries(ctx, max(x.ttl/2, leastAnswer), func(ctx context.Context) error {
		began := time.Now()
		err := step(ctx)
		if err == nil || backends.IsAnswer(err) {
			*slowest = max(*slowest, time.Since(began))
		}
		return err
	})
}

// tidy is a step whose failure changes nothing: the lease ends by itself. It is taken after a signal too.
func (x *doctorCall) tidy(ctx context.Context, step func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leastAnswer)
	defer cancel()
	_ = step(ctx)
}

// refused tells why a store that works did not grant the lease.
func (x *doctorCall) refused(what string, r *backends.Refusal) {
	wait := cli.Millis(r.Wait.Milliseconds())
	switch r.Verdict {
	case backends.Held:
		x.Warn(what, "try again", "not tried: the doctor of %s is at work", runner.HolderText(r.Holder))
	case backends.Vanished:
		x.Warn(what, "try again in "+wait, "not tried: a doctor was killed (%s), and its lease counts for %s more", runner.HolderText(r.Holder), wait)
	case backends.Quarantined:
		x.Warn(what, "try again in "+wait, "not tried: the backend may have forgotten a lease, and gives none for %s", wait)
	default:
		x.Bad(what, "`leaderrun history '"+cli.DoctorJob+"'` tells what became of the job", "%v", r)
	}
}
