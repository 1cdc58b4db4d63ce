package backends

import "context"

// Steps carry a decision into a store with compare-and-swap: how a run or claim ends, and orders. Claims and renewals, in
// which each store extends its leases in its own way, are the driver's. S is what the store holds about a job, as it was
// read in one step.
type Steps[S comparable] struct {
	Read func(ctx context.Context, job string) (S, error)
	View func(s S) View // what is decided on
	// Swap writes if everything is still as it was read. If it is not, it writes nothing and returns what is there now:
	// done is false.
	Swap func(ctx context.Context, job string, s S, w Write) (now S, done bool, err error)
	// Foreign, where there is one, says why no order is carried out on what is there.
	Foreign func(s S) error
	// Always says that what changes nothing is written too: it may be there because an earlier try was applied and did
	// not reach the replicas.
	Always bool
}

// End carries out how a run or claim ends. h is what its grant knows; nil: nothing.
func (x Steps[S]) End(ctx context.Context, job string, h *Holding[S], decide func(View) Ending) error {
	s, err := h.Recall(ctx, job, x.Read)
	for err == nil {
		e := decide(x.View(s))
		switch {
		case e.Lost:
			return ErrLost
		case !e.Changed && !x.Always:
			return nil
		}
		var done bool
		if s, done, err = x.Swap(ctx, job, s, Write{Record: e.Record, Release: e.Release}); done {
			return nil
		}
	}
	return err
}

// Order carries out an order, as Operator says. A reply that is lost costs nothing: asked again, it is decided on what is
// there then.
func (x Steps[S]) Order(ctx context.Context, o Order) error {
	s, err := x.Read(ctx, o.Job)
	for err == nil {
		if x.Foreign != nil {
			if err := x.Foreign(s); err != nil {
				return err
			}
		}
		view := x.View(s)
		answer := DecideOrder(view, o)
		if answer.Err != nil || !answer.Changed && !x.Always {
			return answer.Err
		}
		// A tombstone has a beat of its own: whoever counts the silence of its predecessor begins anew.
		w := Write{Record: answer.Record, Beat: answer.Record.Beat != view.Record.Beat, Release: answer.Release, Still: true}
		var done bool
		if s, done, err = x.Swap(ctx, o.Job, s, w); done {
			return nil
		}
	}
	return err
}
