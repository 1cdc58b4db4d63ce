package backends

import (
	"context"
	"errors"
	"testing"
	"time"
)

// cell is a job in a store with compare-and-swap, as somebody reads and writes it who is not alone.
type cell struct {
	is      *View
	reads   int
	tries   int
	writes  []Write
	between func(c *cell) // is called once, before the next write
	lost    error         // what becomes of the next reply
}

func newCell(v View) *cell { return &cell{is: &v} }

func (c *cell) steps() Steps[*View] {
	return Steps[*View]{
		Read: func(context.Context, string) (*View, error) { c.reads++; return c.is, c.lost },
		View: func(s *View) View { return *s },
		Swap: func(_ context.Context, _ string, s *View, w Write) (*View, bool, error) {
			if f := c.between; f != nil {
				c.between = nil
				f(c)
			}
			if c.tries++; c.tries > 9 {
				return nil, false, errors.New("the step is tried again and again")
			}
			if s != c.is {
				return c.is, false, nil
			}
			c.writes = append(c.writes, w)
			next := *s
			next.Record = w.Record
			if w.Release {
				next.Lease = nil
			}
			c.is = &next
			if err := c.lost; err != nil {
				c.lost = nil
				return nil, false, err
			}
			return c.is, true, nil
		},
	}
}

// another is what somebody else leaves.
func (c *cell) another(change func(v *View)) {
	next := *c.is
	next.Record = next.Record.clone()
	change(&next)
	c.is = &next
}

// running returns a job that a grant's holder runs.
func running(t *testing.T) (View, Grant) {
	t.Helper()
	v := View{Now: time.Now(), Proof: ByBeat}
	d := Decide(v, Claim{Job: "job", Holder: Holder{ID: "a"}, TTL: time.Minute})
	if d.Grant == nil {
		t.Fatal(d.Refusal)
	}
	v.Record, v.Lease = d.Record, &Lease{Holder: "a", Token: d.Grant.Token, Left: time.Minute}
	return v, *d.Grant
}

func finishing(g Grant) func(View) Ending {
	return func(v View) Ending { return DecideFinish(v, g, Outcome{State: Done}) }
}

func TestStepsEnd(t *testing.T) {
	t.Parallel()
	v, g := running(t)
	c := newCell(v)
	known := NewHolding(c.is, func(*View, *View) bool { return false })
	c.between = func(c *cell) { c.another(func(v *View) { v.Record.Passed = 7 }) } // a candidate notes a tick
	if err := c.steps().End(t.Context(), "job", known, finishing(g)); err != nil {
		t.Fatal(err)
	}
	if r := c.is.Record; len(c.writes) != 1 || c.reads != 0 || c.is.Lease != nil || !r.Free() || r.Passed != 7 || c.writes[0].Still {
		t.Errorf("after %d reads and %d writes: %+v", c.reads, len(c.writes), r)
	}

	// Asked again, also without what was known: it is so already.
	if err := c.steps().End(t.Context(), "job", nil, finishing(g)); err != nil || len(c.writes) != 1 || c.reads != 1 {
		t.Errorf("asked again: %v after %d reads and %d writes", err, c.reads, len(c.writes))
	}
	always := c.steps()
	always.Always = true
	if err := always.End(t.Context(), "job", nil, finishing(g)); err != nil || len(c.writes) != 2 || !c.is.Record.Free() {
		t.Errorf("asked again, where it is written again: %v, %d writes", err, len(c.writes))
	}

	// Of a lease that somebody else has got meanwhile nothing is touched.
	c = newCell(v)
	c.between = func(c *cell) {
		c.another(func(v *View) { v.Record.Token++; v.Lease = &Lease{Holder: "b", Token: v.Record.Token} })
	}
	always = c.steps()
	always.Always = true
	if err := always.End(t.Context(), "job", nil, finishing(g)); !errors.Is(err, ErrLost) || len(c.writes) != 0 || c.is.Lease == nil {
		t.Errorf("another one's lease: %v, %d writes", err, len(c.writes))
	}

	// A reply that is lost is no answer; asked again, one run has ended once.
	c = newCell(v)
	c.lost = errors.New("the reply was lost")
	if err := c.steps().End(t.Context(), "job", nil, finishing(g)); !errors.Is(err, c.lost) || c.lost == nil || len(c.writes) != 0 {
		t.Errorf("a read whose reply is lost: %v", err)
	}
	c.lost = nil
	c.between = func(c *cell) { c.lost = errors.New("the reply was lost") }
	if err := c.steps().End(t.Context(), "job", nil, finishing(g)); err == nil || IsAnswer(err) {
		t.Errorf("a write whose reply is lost: %v", err)
	}
	if err := c.steps().End(t.Context(), "job", nil, finishing(g)); err != nil || len(c.writes) != 1 || len(c.is.Record.Runs) != 1 {
		t.Errorf("asked again: %v, %d writes, %+v", err, len(c.writes), c.is.Record.Runs)
	}
}

func TestStepsOrder(t *testing.T) {
	t.Parallel()
	v, g := running(t)
	order := func(kind OrderKind) Order {
		return Order{Job: "job", Kind: kind, By: Holder{ID: "operator " + string(kind)}, Token: g.Token}
	}
	for kind, want := range map[OrderKind]Write{
		Stop:        {Still: true},
		Entomb:      {Still: true, Release: true, Beat: true},
		DeclareDead: {Still: true, Release: true},
	} {
		c := newCell(v)
		c.between = func(c *cell) { c.another(func(v *View) { v.Record.Beat = 7 }) } // a renewal
		if err := c.steps().Order(t.Context(), order(kind)); err != nil || len(c.writes) != 1 {
			t.Fatalf("%s: %v, %d writes", kind, err, len(c.writes))
		}
		w := c.writes[0]
		if r := w.Record; r.Beat < 7 || (r.Beat == 8) != want.Beat {
			t.Errorf("%s: beat %d", kind, r.Beat)
		}
		if w.Record = (Record{}); w.Beat != want.Beat || w.Release != want.Release || w.Still != want.Still {
			t.Errorf("%s writes %+v, want %+v", kind, w, want)
		}
	}

	c := newCell(v)
	over := order(Stop)
	over.Token--
	if err := c.steps().Order(t.Context(), over); !errors.Is(err, ErrOver) || len(c.writes) != 0 {
		t.Errorf("an order for a run that is over: %v", err)
	}
	foreign := errors.New("another program's")
	steps := c.steps()
	steps.Foreign = func(s *View) error {
		if s.Lease.Holder == "b" {
			return foreign
		}
		return nil
	}
	c.between = func(c *cell) { c.another(func(v *View) { v.Lease = &Lease{Holder: "b"} }) }
	if err := steps.Order(t.Context(), order(DeclareDead)); !errors.Is(err, foreign) || len(c.writes) != 0 {
		t.Errorf("an order on what another program has put there meanwhile: %v, %d writes", err, len(c.writes))
	}
}
