package backends

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is a store of one job with compare-and-swap, as somebody uses it who is not alone.
type shelf struct {
	is     *placed
	traits Traits
	asked  []string // what was asked of it
	writes []Write
	begun  []Request
	ended  []error // what its requests ended with

	extend  func(s *placed, q Request) (time.Duration, error)
	between func() // is called once, before the next write
	lost    error  // what becomes of the replies
	hidden  bool   // a swap that fails does not show what there is
}

// placed is a Snapshot of a shelf.
type placed struct {
	view View
	at   int
}

func (p *placed) View(Request) View        { return p.view }
func (p *placed) Newer(than Snapshot) bool { return p.at > than.(*placed).at }
func (p *placed) Complete(g *Grant)        { g.Native = "complete" }
func (s *shelf) Traits() Traits            { return s.traits }
func (*shelf) Close() error                { return nil }

func (s *shelf) did() string                            { did := strings.Join(s.asked, " "); s.asked = nil; return did }
func (s *shelf) List(context.Context) ([]string, error) { return []string{"b", "a", "b"}, s.lost }

func (*shelf) Check(context.Context, time.Duration) []Finding   { return nil }
func (*shelf) Follow(context.Context, string, func(News)) error { return nil }

type shelfTx struct {
	*shelf
	q Request
}

func (s *shelf) Begin(_ context.Context, q Request) Tx {
	s.begun = append(s.begun, q)
	return &shelfTx{s, q}
}

func (t *shelfTx) Read(context.Context) (Snapshot, error) {
	t.asked = append(t.asked, "read")
	return t.is, t.lost
}

func (t *shelfTx) Extend(_ context.Context, s Snapshot) (time.Duration, error) {
	t.asked = append(t.asked, "extend")
	if t.extend != nil {
		return t.extend(s.(*placed), t.q)
	}
	return t.q.TTL, nil
}

func (t *shelfTx) Swap(_ context.Context, was Snapshot, w Write) (Snapshot, bool, error) {
	t.asked = append(t.asked, "swap")
	if f := t.between; f != nil {
		t.between = nil
		f()
	}
	if len(t.asked) > 999 {
		return nil, false, errors.New("it is tried again and again")
	}
	if was != Snapshot(t.is) {
		if t.hidden {
			return nil, false, nil
		}
		return t.is, false, nil
	}
	t.writes = append(t.writes, w)
	t.another(func(v *View) {
		v.Record = w.Record
		if w.Lease != nil {
			v.Lease = &Lease{Holder: w.Lease.Holder, Token: w.Lease.Token, Left: w.TTL}
		}
		if w.Release {
			v.Lease = nil
		}
	})
	if t.lost != nil {
		return nil, false, t.lost
	}
	return t.is, true, nil
}

func (t *shelfTx) End(_ context.Context, err error) { t.ended = append(t.ended, err) }

// another is what somebody leaves.
func (s *shelf) another(change func(v *View)) {
	next := placed{view: s.is.view, at: s.is.at + 1}
	next.view.Record = next.view.Record.clone()
	change(&next.view)
	s.is = &next
}

var errReplyLost = errors.New("the reply was lost")

// shelved returns a free job and its driver.
func shelved() (*shelf, *Engine) {
	s := &shelf{is: &placed{view: View{Now: time.Now(), Proof: ByBeat}}}
	return s, NewEngine(s)
}

// taken returns a job that a grant's holder runs.
func taken(t *testing.T) (*shelf, *Engine, Grant) {
	t.Helper()
	s, e := shelved()
	g, err := e.Acquire(t.Context(), Claim{Job: "job", Holder: Holder{ID: "a"}, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s.asked, s.writes, s.begun, s.ended = nil, nil, nil, nil
	return s, e, g
}

// asks checks what was asked of the store since the last time.
func (s *shelf) asks(t *testing.T, what, want string) {
	t.Helper()
	if did := s.did(); did != want {
		t.Errorf("%s asks %q, want %q", what, did, want)
	}
}

// TestNothingIsWrittenThatCannotBeRead: hazard: a claim counts a token up to one that no reader takes, and the job is lost to all.
func TestNothingIsWrittenThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *Record){
		"its token": func(r *Record) { r.Token, r.Released = MaxToken, MaxToken },
		"its beat":  func(r *Record) { r.Beat = MaxToken },
	} {
		s, e := shelved()
		s.another(func(v *View) { v.Record.Job = "job"; spoil(&v.Record) })
		_, err := e.Acquire(t.Context(), Claim{Job: "job", Holder: Holder{ID: "a"}, TTL: time.Minute})
		if !IsPermanent(err) || !strings.Contains(err.Error(), name+" cannot be 9007199254740992") || len(s.writes) != 0 {
			t.Errorf("%s: %v, %d writes", name, err, len(s.writes))
		}
	}
	s, e, g := taken(t)
	s.another(func(v *View) { v.Record.Beat = MaxToken })
	if _, err := e.Renew(t.Context(), g); !IsPermanent(err) {
		t.Errorf("a renewal: %v", err)
	}
	if err := e.Finish(t.Context(), g, Outcome{State: Done}); err != nil || s.is.view.Record.Check() != nil {
		t.Errorf("an end: %v", err)
	}
}

func TestEngineClaims(t *testing.T) {
	t.Parallel()
	s, e := shelved()
	c := Claim{Job: "job", Holder: Holder{ID: "a", Host: "h"}, TTL: time.Minute, Seen: LastSeen{Token: 7}}
	s.extend = func(*placed, Request) (time.Duration, error) { return 2 * time.Minute, nil }
	s.between = func() { s.another(func(v *View) { v.Record.Passed = 7 }) }
	g, err := e.Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.asks(t, "a claim that meets somebody", "read extend swap extend swap")
	w := s.writes[0]
	if g.TTL != 2*time.Minute || g.Claim.TTL != time.Minute || g.Native != "complete" || w.TTL != g.TTL || !w.Beat || w.CompareBeat ||
		*w.Lease != LabelOf(g) || w.Record.TTL != g.TTL.Milliseconds() || w.Record.Passed != 7 || w.Record.Form != RecordForm {
		t.Errorf("granted %+v, written %+v", g, w)
	}
	if q := s.begun[0]; q.Op != ToClaim || q.Job != "job" || q.Holder != c.Holder || q.TTL != c.TTL || q.Seen != c.Seen || s.ended[0] != nil {
		t.Errorf("begun %+v, ended %v", q, s.ended)
	}

	refusal, ok := errors.AsType[*Refusal](func() error {
		_, err := e.Acquire(t.Context(), Claim{Job: "job", Holder: Holder{ID: "b"}, TTL: time.Minute})
		return err
	}())
	if s.asks(t, "a refused claim", "read"); !ok || refusal.Verdict != Held || !errors.Is(s.ended[1], refusal) {
		t.Errorf("%v, ended %v", refusal, s.ended)
	}
	noted := Claim{Job: "job", Holder: Holder{ID: "b"}, TTL: time.Minute, Trigger: Trigger{Tick: time.Now().Unix() - 10}}
	if _, err := e.Acquire(t.Context(), noted); err == nil || s.is.view.Record.Passed != noted.Tick || s.writes[1].Lease != nil || s.writes[1].Beat {
		t.Errorf("a tick that passes: %v, %+v", err, s.writes[1])
	}
	s.asks(t, "a refusal that is written down", "read swap")

	s, e = shelved()
	s.extend = func(*placed, Request) (time.Duration, error) { return 2 * time.Minute, nil }
	if g, err := e.Acquire(t.Context(), c); err != nil || g.TTL != 2*time.Minute || s.is.view.Record.TTL != g.TTL.Milliseconds() {
		t.Errorf("a lease that is longer than asked for, alone: %v, %+v, written %+v", err, g, s.is.view.Record)
	}
	s, e = shelved()
	s.extend = func(*placed, Request) (time.Duration, error) { return time.Second, nil }
	if _, err := e.Acquire(t.Context(), c); err == nil || IsAnswer(err) || len(s.writes) != 0 {
		t.Errorf("a lease that is shorter than asked for: %v", err)
	}
	foreign := Misconfigured("remedy", "another program's")
	s.another(func(v *View) { v.Foreign = foreign })
	if _, err := e.Acquire(t.Context(), c); !errors.Is(err, foreign) || len(s.writes) != 0 {
		t.Errorf("another program's lease: %v", err)
	}
	if _, err := e.Inspect(t.Context(), "job"); !errors.Is(err, foreign) {
		t.Errorf("another program's lease: %v", err)
	}
}

func TestEngineRenews(t *testing.T) {
	t.Parallel()
	s, e, g := taken(t)
	if _, err := e.Renew(t.Context(), g); err != nil || len(s.writes) != 1 || !s.writes[0].Beat || *s.writes[0].Lease != LabelOf(g) || s.writes[0].CompareBeat {
		t.Errorf("%v, %+v", err, s.writes)
	}
	s.asks(t, "a renewal", "extend swap")
	known := CacheOf(g)
	overtaken := known.Last()
	if _, err := e.Renew(t.Context(), g); err != nil || known.Last() == overtaken {
		t.Errorf("%v, and what is known stays", err)
	}
	known.Saw(nil, overtaken) // the late reply to an earlier one
	if known.Last() == overtaken {
		t.Error("a reply that is late takes back what is known")
	}
	s.did()
	s.between = func() {
		s.another(func(v *View) { v.Record.Break = &BreakRequest{Token: g.Token}; v.Record.Passed = 7 })
	}
	signal, err := e.Renew(t.Context(), g)
	if err != nil || signal.Break == nil || s.is.view.Record.Passed != 7 {
		t.Errorf("after somebody else wrote: %v, %+v", err, signal)
	}
	s.asks(t, "a renewal that meets somebody", "extend swap extend swap")
	s.hidden = true
	s.between = func() { s.another(func(*View) {}) }
	if _, err := e.Renew(t.Context(), g); err != nil {
		t.Error(err)
	}
	s.asks(t, "one that is not shown what there is", "extend swap read extend swap")

	// By what was known the lease has run out, or is another one's; it has been renewed since.
	stale := *s.is
	stale.view.Lease = nil
	known.Saw(known.Last(), &stale)
	if _, err := e.Renew(t.Context(), g); err != nil {
		t.Error(err)
	}
	s.asks(t, "a renewal that knows less than there is", "read extend swap")

	// One server's word that there is no lease is none; nor is a failure.
	for name, x := range map[string]struct {
		gone bool
		errs []error
		want error
		asks string
	}{
		"one server is behind": {errs: []error{ErrNoLease, nil}, asks: "extend read extend swap"},
		"all are":              {errs: []error{ErrNoLease, ErrNoLease}, want: ErrNoLease, asks: "extend read extend"},
		"it is gone":           {gone: true, errs: []error{ErrNoLease}, want: ErrLost, asks: "extend read"},
		"it failed":            {errs: []error{errReplyLost}, want: errReplyLost, asks: "extend"},
	} {
		s, e, g := taken(t)
		s.extend = func(_ *placed, q Request) (time.Duration, error) {
			if x.gone {
				s.another(func(v *View) { v.Lease = nil })
			}
			err := x.errs[0]
			x.errs = x.errs[1:]
			return q.TTL, err
		}
		if _, err := e.Renew(t.Context(), g); !errors.Is(err, x.want) || x.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
		s.asks(t, name, x.asks)
	}

	s, e, g = taken(t)
	s.lost = errReplyLost
	if _, err := e.Renew(t.Context(), g); !errors.Is(err, errReplyLost) || IsAnswer(err) {
		t.Errorf("the reply is lost: %v", err)
	}
	s.lost = nil
	s.another(func(v *View) { v.Lease = &Lease{Holder: "b", Token: g.Token + 1} })
	s.did()
	if _, err := e.Renew(t.Context(), g); !errors.Is(err, ErrLost) || len(s.writes) != 1 {
		t.Errorf("another one's lease: %v", err)
	}
	s.asks(t, "a renewal after one without an answer, of what another holds", "read")
	g.Private = nil
	if _, err := e.Renew(t.Context(), g); !errors.Is(err, ErrLost) {
		t.Errorf("another one's lease: %v", err)
	}
	s.asks(t, "one that knows nothing", "read")
}

// TestEngineHedges: a renewal beside one that stays silent goes elsewhere.
func TestEngineHedges(t *testing.T) {
	t.Parallel()
	s, e, g := taken(t)
	leave := CacheOf(g).Hedge(func() { t.Error("it is alone") })
	for _, beside := range []bool{true, false} {
		if _, err := e.Renew(t.Context(), g); err != nil || s.begun[len(s.begun)-1].IsHedge != beside {
			t.Errorf("%v, %+v", err, s.begun)
		}
		leave()
	}
}

func TestEngineEnds(t *testing.T) {
	t.Parallel()
	done := Outcome{State: Done}
	s, e, g := taken(t)
	s.between = func() { s.another(func(v *View) { v.Record.Passed = 7 }) } // a candidate notes a tick
	if err := e.Finish(t.Context(), g, done); err != nil {
		t.Fatal(err)
	}
	s.asks(t, "the end", "swap swap")
	if r := s.is.view.Record; len(s.writes) != 1 || s.is.view.Lease != nil || !r.Free() || r.Passed != 7 || s.writes[0].CompareBeat || s.writes[0].Beat {
		t.Errorf("after %+v: %+v", s.writes, r)
	}
	// Asked again: it is so already. Nor is there a lease any more that a late renewal could know of.
	if err := e.Finish(t.Context(), g, done); err != nil || len(s.writes) != 1 {
		t.Errorf("asked again: %v, %d writes", err, len(s.writes))
	}
	s.asks(t, "the end, asked again", "read")
	if _, err := e.Renew(t.Context(), g); !errors.Is(err, ErrLost) {
		t.Errorf("a late renewal: %v", err)
	}
	s.asks(t, "a late renewal", "read")
	e.traits.Rewrites = true
	if err := e.Finish(t.Context(), g, done); err != nil || len(s.writes) != 2 || !s.is.view.Record.Free() {
		t.Errorf("asked again, where it is written again: %v, %d writes", err, len(s.writes))
	}

	s, e, g = taken(t)
	e.traits.EndsRead = true
	if err := e.Finish(t.Context(), g, done); err != nil {
		t.Error(err)
	}
	s.asks(t, "the end, where what is known would be compared with values that come again", "read swap")

	// Of a lease that somebody else has got meanwhile nothing is touched.
	s, e, g = taken(t)
	e.traits.Rewrites = true
	s.between = func() {
		s.another(func(v *View) { v.Record.Token++; v.Lease = &Lease{Holder: "b", Token: v.Record.Token} })
	}
	if err := e.Finish(t.Context(), g, done); !errors.Is(err, ErrLost) || len(s.writes) != 0 || s.is.view.Lease == nil {
		t.Errorf("another one's lease: %v, %d writes", err, len(s.writes))
	}

	// A reply that is lost is no answer; asked again, one run has ended once.
	s, e, g = taken(t)
	s.lost = errReplyLost
	if err := e.Finish(t.Context(), g, done); !errors.Is(err, errReplyLost) || IsAnswer(err) {
		t.Errorf("a write whose reply is lost: %v", err)
	}
	if err := e.Finish(t.Context(), g, done); !errors.Is(err, errReplyLost) || len(s.writes) != 1 {
		t.Errorf("a read whose reply is lost: %v", err)
	}
	s.lost = nil
	if err := e.Finish(t.Context(), g, done); err != nil || len(s.writes) != 1 || len(s.is.view.Record.Runs) != 1 {
		t.Errorf("asked again: %v, %d writes, %+v", err, len(s.writes), s.is.view.Record.Runs)
	}

	s, e, g = taken(t)
	if err := e.Abandon(t.Context(), g.Claim); err != nil || !s.writes[0].Release || !slices.Contains(s.is.view.Record.Refused, "a") {
		t.Errorf("Abandon: %v, %+v", err, s.writes)
	}
	s.asks(t, "what is taken back", "read swap")
}

func TestEngineOrders(t *testing.T) {
	t.Parallel()
	order := func(g Grant, kind OrderKind) Order {
		return Order{Job: "job", Kind: kind, By: Holder{ID: "operator " + string(kind)}, Token: g.Token}
	}
	for kind, want := range map[OrderKind]Write{
		Stop:         {CompareBeat: true},
		Revoke:       {CompareBeat: true, Release: true, Beat: true},
		ForceRelease: {CompareBeat: true, Release: true},
	} {
		s, e, g := taken(t)
		s.between = func() { s.another(func(v *View) { v.Record.Beat = 7 }) } // a renewal
		if err := e.Order(t.Context(), order(g, kind)); err != nil || len(s.writes) != 1 {
			t.Fatalf("%s: %v, %d writes", kind, err, len(s.writes))
		}
		w := s.writes[0]
		if r := w.Record; r.Beat < 7 || (r.Beat == 8) != want.Beat {
			t.Errorf("%s: beat %d", kind, r.Beat)
		}
		if w.Record = (Record{}); w.Beat != want.Beat || w.Release != want.Release || w.CompareBeat != want.CompareBeat || w.Lease != nil {
			t.Errorf("%s writes %+v, want %+v", kind, w, want)
		}
	}
	s, e, g := taken(t)
	over := order(g, Stop)
	over.Token--
	if err := e.Order(t.Context(), over); !errors.Is(err, ErrOver) || len(s.writes) != 0 {
		t.Errorf("an order for a run that is over: %v", err)
	}
	foreign := Misconfigured("remedy", "another program's")
	s.between = func() { s.another(func(v *View) { v.Lease, v.Foreign = &Lease{Holder: "b"}, foreign }) }
	if err := e.Order(t.Context(), order(g, ForceRelease)); !errors.Is(err, foreign) || len(s.writes) != 0 {
		t.Errorf("an order on what another program has put there meanwhile: %v, %d writes", err, len(s.writes))
	}
}

// TestEngineUnderConflicts: those who always meet somebody make pauses, and read again after each; they end with their context.
func TestEngineUnderConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e, g := taken(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var meet func()
		meet = func() { s.another(func(v *View) { v.Record.Passed++ }); s.between = meet }
		meet()
		_, err := e.Renew(ctx, g)
		if !errors.Is(err, context.DeadlineExceeded) || IsAnswer(err) || len(s.writes) != 0 {
			t.Errorf("%v, %d writes", err, len(s.writes))
		}
		if did := s.did(); !strings.HasPrefix(did, "extend swap extend swap read extend swap read extend swap") {
			t.Error(did)
		}
	})
}

func TestEngineShows(t *testing.T) {
	t.Parallel()
	s, e, g := taken(t)
	s.another(func(v *View) { v.Notes = []string{"a note"} })
	status, err := e.Inspect(t.Context(), "job")
	if err != nil || status.Lease.Token != g.Token || !slices.Equal(status.Notes, []string{"a note"}) {
		t.Errorf("%+v, %v", status, err)
	}
	s.asks(t, "a look", "read")
	if jobs, err := e.Jobs(t.Context()); err != nil || !slices.Equal(jobs, []string{"a", "b"}) {
		t.Errorf("%v, %v", jobs, err)
	}
	s.lost = errReplyLost
	if jobs, err := e.Jobs(t.Context()); !errors.Is(err, errReplyLost) || len(jobs) != 2 {
		t.Errorf("beside an error: %v, %v", jobs, err)
	}
	_, empty := shelved()
	if _, err := empty.Inspect(t.Context(), "job"); !errors.Is(err, ErrUnknownJob) {
		t.Error(err)
	}
}
