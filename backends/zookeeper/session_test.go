package zookeeper

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestSessionEndsOnce: a session that was closed is never opened again. A server that is about to end a session still takes
// it up on a new connection, and then drops what is asked there without an answer.
func TestSessionEndsOnce(t *testing.T) {
	w := newWorld(t)
	for range 50 {
		g := w.Acquire(w.d, newClaim("job"))
		session := sessionOf(g)
		w.Finish(w.d, g)
		ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
		if err := w.d.Finish(ctx, g, backends.Outcome{State: backends.Done}); err != nil {
			t.Fatalf("the same Finish again: %v", err)
		}
		cancel()
		if _, err := session.connection(t.Context()); !errors.Is(err, wire.ErrExpired) {
			t.Fatalf("a connection of a session that was closed: %v", err)
		}
		_, err := w.d.Renew(t.Context(), g)
		w.WantLost("Renew of a run that is over", err)
	}
	s := sessionOf(w.Acquire(w.d, newClaim("job")))
	s.drop() // the server still knows it
	if _, err := s.connection(t.Context()); !errors.Is(err, wire.ErrExpired) {
		t.Errorf("a connection of a session that was let go of: %v", err)
	}
}

// TestNoSessionStays: the driver keeps no session of a run that is over, however it ended.
func TestNoSessionStays(t *testing.T) {
	w := newWorld(t)
	ends := map[string]func(g backends.Grant){
		"finished without an answer": func(g backends.Grant) {
			session := sessionOf(g)
			w.d.store.between = func([]*wire.Call, func() error) error { return errors.New("no answer") }
			w.WantUnknown("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
			w.d.store.between = nil
			cut(session) // as the servers do when it has expired
			operate(t, w.operator, wire.Delete(w.nodes("job").lease, -1), wire.Delete(w.nodes("job").record, -1))
			stateOf(t, w.d, "job") // whoever connects finds it dead
		},
		"finished": func(g backends.Grant) { w.Finish(w.d, g) },
		"lost": func(g backends.Grant) {
			operate(t, w.operator, wire.Delete(w.nodes("job").lease, -1), wire.Delete(w.nodes("job").record, -1))
			w.WantLost("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
		},
		"taken back": func(g backends.Grant) {
			if err := w.d.Abandon(t.Context(), g.Claim); err != nil {
				t.Fatal(err)
			}
		},
		"known to nobody": func(g backends.Grant) {
			session := sessionOf(g)
			stranger := g
			stranger.Private = nil
			w.Renew(w.d, stranger)
			w.Renew(w.d, stranger)
			w.Finish(w.d, g)
			if session.id() == 0 {
				t.Error("no session")
			}
		},
	}
	for how, end := range ends {
		end(w.Acquire(w.d, newClaim("job")))
		w.d.store.mu.Lock()
		n := len(w.d.store.sessions)
		w.d.store.mu.Unlock()
		if n != 0 {
			t.Fatalf("%s: %d sessions are kept", how, n)
		}
	}
}

// TestMovedSessionKeepsItsTime: a session that lives for longer than was asked for asks for as much on its next connection:
// others were told that its lease is of that length.
func TestMovedSessionKeepsItsTime(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	s := sessionOf(g)
	cut(s)
	s.known.Timeout = longest // as if that server had longer ticks
	w.Renew(w.d, g)
	if s.granted() < longest {
		t.Errorf("lives for %v, its lease for %v", s.granted(), longest)
	}
	w.Finish(w.d, g)
}

// TestMovedSessionDemandsNoMore: what one server grants on top is not what the next one has to grant.
func TestMovedSessionDemandsNoMore(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	s := sessionOf(g)
	cut(s)
	const least = time.Millisecond // less than the server grants anybody
	s.asked, s.known.Timeout, g.TTL = least, least, least
	w.Renew(w.d, g)
	if on := s.conn.Session().Timeout; on <= least || s.granted() != least {
		t.Errorf("it was granted %v, and demands %v, want more than %v, and that", on, s.granted(), least)
	}
	w.Finish(w.d, g)
}

// TestPartOfAMillisecond: hazard: servers count in milliseconds, and a TTL that is no whole number of them is refused as if they
// granted no more than what was cut off.
func TestPartOfAMillisecond(t *testing.T) {
	w := newWorld(t)
	c := newClaim("job")
	c.TTL = time.Minute + 500*time.Microsecond
	g := w.Acquire(w.d, c)
	if want := time.Minute + time.Millisecond; g.TTL != want || g.Claim.TTL != c.TTL {
		t.Errorf("TTL %v of a claim for %v, want %v", g.TTL, g.Claim.TTL, want)
	}
	w.Renew(w.d, g)
	w.Finish(w.d, g)
	grades(t, w.d.Examine(t.Context(), c.TTL), map[string]backends.Grade{"sessions": backends.Fine})
}

// TestEndThatNobodyHeard: hazard: an end that was never sent leaves a run that cannot renew its lease any more, or cannot end.
func TestEndThatNobodyHeard(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	w.d.store.between = func([]*wire.Call, func() error) error { return errLost }
	w.WantUnknown("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
	w.d.store.between = nil
	for range 3 {
		w.Renew(w.d, g)
		w.Refused(w.other, newClaim("job"), backends.Held)
	}
	w.Finish(w.d, g)
	w.Finish(w.other, w.Acquire(w.other, newClaim("job")))
	w.runs("job", 2)
}

// TestRenewalBesideAnEnd: a renewal whose connection is closed because the run ends meanwhile finds that it is over.
func TestRenewalBesideAnEnd(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	var ended atomic.Bool
	w.d.store.between = func(calls []*wire.Call, send func() error) error {
		if isWrite(calls) && ended.CompareAndSwap(false, true) {
			w.Finish(w.d, g)
			return wire.ErrClosed
		}
		return send()
	}
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
}
