package suite

import (
	"context"
	"errors"

	"github.com/leaderrun/leaderrun/backends"
)

// obeying builds a mutant that carries out orders wrongly.
func obeying(f func(backends.View, backends.Order) backends.OrderDecision) func(*Mem) Harness {
	return in(func(m *Mem) { m.Rules.Order = f })
}

// obeyed builds a mutant that spoils what an order of a kind has made of the record.
func obeyed(kind backends.OrderKind, spoil func(v backends.View, d *backends.OrderDecision)) func(*Mem) Harness {
	return obeying(func(v backends.View, o backends.Order) backends.OrderDecision {
		d := backends.DecideOrder(v, o)
		if o.Kind == kind && d.Changed {
			spoil(v, &d)
		}
		return d
	})
}

// misled builds a mutant that decides orders on something else than there is.
func misled(change func(v *backends.View, o *backends.Order)) func(*Mem) Harness {
	return obeying(func(v backends.View, o backends.Order) backends.OrderDecision {
		change(&v, &o)
		return backends.DecideOrder(v, o)
	})
}

type (
	deafToOrders         struct{ *Mem }
	deafToOrdersInFlight struct{ *Mem }
)

func (d deafToOrders) Order(_ context.Context, o backends.Order) error {
	return d.Mem.Order(context.Background(), o)
}

func (d deafToOrdersInFlight) Order(ctx context.Context, o backends.Order) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.Mem.Order(context.Background(), o)
}

func orderMutants() []mutant {
	return append([]mutant{
		{"requests to stop are dropped", "a stop request reaches the holder", obeyed(backends.Stop, func(_ backends.View, d *backends.OrderDecision) {
			d.Record.Break = nil
		})},
		{"whoever runs is meant", "a stop request for another run changes nothing", misled(func(v *backends.View, o *backends.Order) {
			o.Token = v.Record.Token
		})},
		{
			"a request to stop in the place of a record", "a stop request while the record is lost",
			obeyed(backends.Stop, func(v backends.View, d *backends.OrderDecision) {
				if d.Record.Token < v.Lease.Token { // a renewal takes it for known, and does not restore its tick
					d.Record.Token, d.Record.Runs = v.Lease.Token, []backends.Run{{Token: v.Lease.Token}}
				}
			}),
		},
		{"nobody hears of a request to stop", "a watch tells of a stop request", in(func(m *Mem) { m.silent = true })},
		{"a tombstone without a wait", "a revoked run is waited out", obeyed(backends.Revoke, func(v backends.View, d *backends.OrderDecision) {
			d.Record.Until = v.Now.UnixMilli()
		})},
		{"a tombstone over a lost record", "a run is not revoked while its record is lost", misled(func(v *backends.View, o *backends.Order) {
			if o.Kind == backends.Revoke && v.Lease != nil {
				v.Record.Token, v.Record.Holder.ID = v.Lease.Token, v.Lease.Holder
			}
		})},
		{"a tombstone that nobody waits for", "a revoked run leaves a silence of its own", obeyed(backends.Revoke, func(v backends.View, d *backends.OrderDecision) {
			d.Record.Until = v.Now.UnixMilli()
		})},
		{"an order is written over whatever came", "an order that is overtaken is decided anew", wrapped(func(m *Mem) backends.Backend {
			return backends.NewEngine(blind{m.memStore})
		})},
		{"the dead are waited for", "a dead holder's job is free at once", obeyed(backends.ForceRelease, func(_ backends.View, d *backends.OrderDecision) {
			d.Record.Released = 0
		})},
		{"orders are not remembered", "a lost reply of an order costs nothing", misled(func(v *backends.View, _ *backends.Order) {
			v.Record.Orders = nil
		})},
		{
			"an order about nothing is carried out", "orders about an unknown job",
			obeying(func(v backends.View, o backends.Order) backends.OrderDecision {
				d := backends.DecideOrder(v, o)
				if errors.Is(d.Err, backends.ErrUnknownJob) {
					d.Err = nil
				}
				return d
			}),
		},
		{"deaf to a cancelled order", "a cancelled context returns at once", wrapped(func(m *Mem) backends.Backend { return deafToOrders{m} })},
		{
			"deaf to orders in flight", "a context that ends in flight returns",
			wrapped(func(m *Mem) backends.Backend { return deafToOrdersInFlight{m} }),
		},
	}, forgetMutants()...)
}

func forgetMutants() []mutant {
	return []mutant{
		{"all ticks are forgotten", "agrees with the decision", obeyed(backends.ForgetTick, func(_ backends.View, d *backends.OrderDecision) {
			d.Record.Tick = backends.Occurrence{}
		})},
		{"what is older than a forgotten tick is forgotten", "agrees with the decision", obeyed(backends.ForgetTick, func(_ backends.View, d *backends.OrderDecision) {
			d.Record.Tick = backends.Occurrence{}
		})},
		{"all keys are forgotten", "agrees with the decision", obeyed(backends.ForgetKey, func(_ backends.View, d *backends.OrderDecision) {
			d.Record.Once = nil
		})},
		{"superseded schedules stay", "agrees with the decision", obeyed(backends.ForgetSchedule, func(v backends.View, d *backends.OrderDecision) {
			d.Record.Schedule, d.Record.Former = v.Record.Schedule, v.Record.Former
		})},
		{"the token is forgotten", "a forgotten job keeps its token", obeyed(backends.ForgetJob, func(_ backends.View, d *backends.OrderDecision) {
			d.Record = backends.Record{}
		})},
	}
}
