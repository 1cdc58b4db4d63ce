package redis

import (
	"context"
	"maps"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator. Nobody waits for an order as for a claim, so it is decided here, on what was
// read, and written if nothing of that has changed since: two round trips instead of a mirror of the decision in Lua.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	steps := backends.Steps[*sight]{
		Read: d.look, View: (*sight).view, Always: true,
		Swap: func(ctx context.Context, job string, s *sight, w backends.Write) (*sight, bool, error) {
			done, err := d.write(ctx, o, s, w)
			if err != nil || done {
				return s, done, err
			}
			s, err = d.look(ctx, job)
			return s, false, err
		},
	}
	return backends.About(string(o.Kind), o.Job, steps.Order(ctx, o))
}

func (s *sight) view() backends.View {
	return backends.View{Record: s.record, Lease: s.lease, Now: s.now, Proof: backends.ByUntil, Quarantine: s.quarantine}
}

// write carries out an order, and says no if the store does not hold any more what it was decided on. One that
// changes nothing is written too: its first reply may have been lost for want of replicas.
func (d *Driver) write(ctx context.Context, o backends.Order, s *sight, w backends.Write) (bool, error) {
	args, err := orderArgs(o, s, w)
	if err != nil {
		return false, err
	}
	ordered, err := d.ask(ctx, request{
		script: orderScript, job: o.Job, counts: true, args: args,
		check: func(r []any) (any, bool, error) {
			said := element(r, 3)
			if said != "ordered" && said != "changed" || len(r) != 4 {
				return false, false, errReply
			}
			return said == "ordered", said == "ordered", nil
		},
	})
	yes, _ := ordered.(bool)
	return yes && err == nil, err
}

func orderArgs(o backends.Order, s *sight, w backends.Write) ([]any, error) {
	was, err := hashOf(s.record)
	if err != nil {
		return nil, err
	}
	is, err := hashOf(w.Record)
	if err != nil {
		return nil, err
	}
	lease := backends.Lease{}
	if s.lease != nil {
		lease = *s.lease
	}
	release := 0
	if w.Release {
		release = 1
	}
	args := []any{o.Job, o.By.ID, lease.Holder, lease.Token, s.mark, release, len(s.stored)}
	for field, value := range s.stored {
		args = append(args, field, value)
	}
	// Only what the order changes: what else is kept stays as it is, to the byte.
	fields := slices.Collect(maps.Keys(is))
	for field := range was {
		if _, ok := is[field]; !ok {
			fields = append(fields, field)
		}
	}
	for _, field := range fields {
		if is[field] != was[field] {
			args = append(args, field, is[field])
		}
	}
	return args, nil
}
