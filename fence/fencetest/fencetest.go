// Package fencetest is the suite that every fenced resource passes: two runs of a job, the older one stopped at every
// step of what it does, and the newer one coming in between. However they meet, no byte of the older one is accepted after
// the newer one has raised the fence. It is linked into tests only.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
)

// Interleavings is how many ways of two runs to meet every resource has to stand.
const Interleavings = 1000

// patience is how long the newer run may stand still before the older one goes on. It may wait for a lock that the older one
// holds, and nobody can see that from outside. It decides nothing but which interleaving this is.
const patience = 25 * time.Millisecond

// hang is what only a fault exceeds.
const hang = time.Minute

// Subject is a resource under test. What it has seen stays from one interleaving to the next; tokens go on growing.
type Subject struct {
	// Writer returns what a run does to the resource, from its first connection on: nothing of it is shared with another
	// writer but the resource itself. Every step of it passes the gate, which may be nil.
	Writer func(t testing.TB, r fence.Run, gate *Gate) Writer
	// Read returns what anybody finds in the resource now. It may be called at every moment, also in the middle of a write;
	// "" stands for nothing at all.
	Read func(t testing.TB) string
	// Size is how long the values are, in bytes; 0: a few.
	Size int
}

// Writer is one run. Its methods are called one after the other.
type Writer struct {
	Raise func(ctx context.Context) error
	Write func(ctx context.Context, value string) error // after Raise; replaces what was there
	Close func()                                        // may be nil
}

// Run lets an older and a newer run meet in every way. It fails with the number of the interleaving, whose every choice is
// made from that number.
func Run(t testing.TB, s Subject) {
	t.Helper()
	steps := s.count(t)
	if steps < 4 {
		t.Fatalf("the older run takes only %d steps: a pause between check and write is not among them", steps)
	}
	var m meetings
	for i := range Interleavings {
		s.meet(t, i, 1+i%steps, &m)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d interleavings at %d steps: the older run wrote first %d times, was refused %d times, and held the newer one up %d times",
		Interleavings, steps, m.first, m.refused, m.blocked)
	if m.refused == 0 || m.first == 0 {
		t.Errorf("the older run was refused %d times and came first %d times: the interleavings are not what they should be", m.refused, m.first)
	}
}

// meetings counts how the interleavings went.
type meetings struct{ first, refused, blocked int }

// count runs a run alone and returns how many steps it takes.
func (s Subject) count(t testing.TB) int {
	t.Helper()
	gate := newGate(0)
	w := s.Writer(t, fence.Run{Token: 1, Job: "job"}, gate)
	if err := errors.Join(w.Raise(t.Context()), w.Write(t.Context(), s.value("first", 0))); err != nil {
		t.Fatalf("a run alone: %v", err)
	}
	w.close()
	return gate.steps()
}

// value is what a run writes: as long as it should be, and torn nowhere without being seen.
func (s Subject) value(who string, i int) string {
	text := fmt.Sprintf("%s %d.", who, i)
	for len(text) < s.Size {
		text += text
	}
	return text
}

// meet is one interleaving: the older run stops at a step, the newer one does its work or a part of it, the older one goes on.
func (s Subject) meet(t testing.TB, i, stopAt int, m *meetings) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	random := rand.New(rand.NewPCG(uint64(i), 6))
	before := s.Read(t)
	olds, news := s.value("older", i), s.value("newer", i)
	gate := newGate(stopAt)
	defer gate.resume()
	older := s.Writer(t, fence.Run{Token: int64(2*i + 2), Job: "job"}, gate)
	defer older.close()
	newer := s.Writer(t, fence.Run{Token: int64(2*i + 3), Job: "job"}, nil)
	defer newer.close()

	oldEnd := make(chan error, 1)
	go func() {
		err := older.Raise(ctx)
		if err == nil {
			err = older.Write(ctx, olds)
		}
		oldEnd <- err
	}()
	var oldErr error
	oldOver := false
	waitOld := func() {
		if !oldOver {
			oldErr, oldOver = <-oldEnd, true
		}
	}
	select {
	case <-gate.stopped:
	case oldErr = <-oldEnd:
		oldOver = true
	}

	// The older one goes on when the newer one has raised the fence, or when it has written too, or when it waits.
	goesOnAfterRaise := random.IntN(2) == 0
	blocked := false
	unlessBlocked := func(do func() error) error {
		done := make(chan error, 1)
		go func() { done <- do() }()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			blocked = true
			gate.resume()
			return <-done
		}
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("interleaving %d, the older run stopped %s: %s", i, gate.place(), fmt.Sprintf(format, args...))
	}
	if err := unlessBlocked(func() error { return newer.Raise(ctx) }); err != nil {
		fail("the newer run cannot raise the fence: %v", err)
		return
	}
	seen := s.Read(t)
	if seen != before && seen != olds {
		fail("the newer run finds %.60q, which nobody wrote whole", seen)
	}
	if goesOnAfterRaise {
		gate.resume()
		waitOld()
		if now := s.Read(t); now != seen {
			fail("after the newer run had raised the fence and read %.60q, there is %.60q", seen, now)
		}
	}
	if err := unlessBlocked(func() error { return newer.Write(ctx, news) }); err != nil {
		fail("the newer run cannot write: %v", err)
		return
	}
	gate.resume()
	waitOld()
	if now := s.Read(t); now != news {
		fail("in the end there is %.60q, and not what the newer run wrote", now)
	}
	stale, refused := errors.AsType[*fence.StaleError](oldErr)
	switch {
	case refused && seen == olds:
		// Its write was accepted, and what it did after that was refused: no more than that can be known.
	case refused && (stale.Token != int64(2*i+2) || stale.Resource == ""):
		fail("the refusal is of another run: %+v", stale)
	case oldErr == nil && seen != olds:
		fail("the older run was told that its write was accepted, and the newer one never saw it")
	case oldErr != nil && !refused:
		fail("the older run ended with %v", oldErr)
	}
	if refused {
		m.refused++
	}
	if seen == olds {
		m.first++
	}
	if blocked {
		m.blocked++
	}
}

func (w Writer) close() {
	if w.Close != nil {
		w.Close()
	}
}
