// Package fencetest is the suite that every fenced resource passes: two runs of a job, the older one stopped at every
// step of what it does, and the newer one coming in between. However they meet, no byte of the older one is accepted after
// the newer one has raised the fence. It is linked into tests only.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
)

// Interleavings is how many ways of two runs to meet a resource has to stand at the most. A test run tries the last of them,
// some at every step; LEADERRUN_INTERLEAVINGS=all tries all.
const Interleavings = 1000

// What a test run tries, with -short and without: so many at every step, and no fewer than that in all.
const (
	shortPerStep, shortFewest = 2, 60
	perStep, fewest           = 6, 180
)

// patience is how long the newer run may stand still before the older one goes on. It may wait for a lock that the older one
// holds, and nobody can see that from outside. It decides nothing but which interleaving this is.
const patience = 25 * time.Millisecond

// hang is what only a fault exceeds.
const hang = time.Minute

// firstToken is that of the first interleaving: no token of today, and from there on a float32 does not tell tokens apart that
// follow each other.
const firstToken = int64(1) << 40

// LastToken is the highest that the resource has seen after Run.
const LastToken = firstToken + 2*Interleavings - 1

// Subject is a resource under test. What it has seen stays from one interleaving to the next; tokens go on growing.
type Subject struct {
	// Writer returns what a run does to the resource, from its first connection on: nothing of it is shared with another
	// writer but the resource itself. Every step of it passes the gate, which may be nil.
	Writer func(t testing.TB, r fence.Run, gate *Gate) Writer
	// Read returns what anybody finds in the resource now. It may be called at every moment, also in the middle of a write;
	// "" stands for nothing at all.
	Read func(t testing.TB) string
	// Unshielded: whoever reads without having raised the fence may find half of a write.
	Unshielded bool
	// Size is how long the values are, in bytes; 0: a few.
	Size int
}

// Writer is one run. Its methods are called one after the other.
type Writer struct {
	Raise func(ctx context.Context) error               // may be called again
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
	var sum result
	free := make([]bool, steps) // steps at which the newer run once came through while the older one stood there
	tried := tries(steps)
	for i := Interleavings - tried; i < Interleavings; i++ {
		at := i % steps
		r := s.meet(t, i, 1+at)
		if t.Failed() {
			return
		}
		sum.add(r)
		free[at] = free[at] || r.blocked == 0
	}
	held := 0
	for _, once := range free {
		if !once {
			held++
		}
	}
	t.Logf("%d interleavings at %d steps: the older run wrote first %d times, was refused %d times, and held the newer one up %d times; at %d steps always",
		tried, steps, sum.first, sum.refused, sum.blocked, held)
	if sum.refused == 0 || sum.first == 0 || held == steps {
		t.Errorf("the older run was refused %d times, came first %d times, and held the newer one up at %d steps: the interleavings are not what they should be",
			sum.refused, sum.first, held)
	}
}

// tries returns how many interleavings are tried.
func tries(steps int) int {
	switch {
	case os.Getenv("LEADERRUN_INTERLEAVINGS") == "all":
		return Interleavings
	case testing.Short():
		return min(Interleavings, max(shortFewest, shortPerStep*steps))
	}
	return min(Interleavings, max(fewest, perStep*steps))
}

// result counts how interleavings went.
type result struct{ first, refused, blocked int }

func (r *result) add(o result) {
	r.first += o.first
	r.refused += o.refused
	r.blocked += o.blocked
}

// count lets two runs alone do their work, one after the other, and returns how many steps the longer one takes: the first one
// finds nothing there, and may take another way.
func (s Subject) count(t testing.TB) int {
	t.Helper()
	steps := 0
	for token := range int64(2) {
		gate := newGate(0)
		w := s.Writer(t, fence.Run{Token: 1 + token, Job: "job"}, gate)
		value := s.value("alone", int(token))
		err := w.Raise(t.Context())
		if err == nil {
			err = w.Write(t.Context(), value)
		}
		w.close()
		if err != nil {
			t.Fatalf("a run alone: %v", err)
		}
		if got := s.Read(t); got != value {
			t.Fatalf("a run alone: there is %.60q, and not what it wrote", got)
		}
		steps = max(steps, gate.steps())
	}
	return steps
}

// value is what a run writes: as long as it should be, and torn nowhere without being seen.
func (s Subject) value(who string, i int) string {
	text := fmt.Sprintf("%s %d.", who, i)
	for len(text) < s.Size {
		text += text
	}
	return text
}

func (w Writer) close() {
	if w.Close != nil {
		w.Close()
	}
}

// refusal returns the *fence.StaleError that an error is.
func refusal(err error) (*fence.StaleError, bool) { return errors.AsType[*fence.StaleError](err) }
