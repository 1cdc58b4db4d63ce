package fencetest

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
)

// kept is a resource in memory. It has every fault that it is given.
type kept struct {
	mu      sync.Mutex
	reading sync.Mutex // of value
	highest int64
	value   string

	checksApart bool // the check and the write are two steps
	raisesLate  bool // Raise does nothing
	tears       bool // a write is two halves
	strict      bool // an equal token is refused
	imprecise   bool // tokens are compared as floating-point numbers
	denies      bool // a write is done and refused
}

func (k *kept) subject() Subject {
	return Subject{
		Read: func(testing.TB) string { k.reading.Lock(); defer k.reading.Unlock(); return k.value },
		Writer: func(_ testing.TB, r fence.Run, gate *Gate) Writer {
			return Writer{
				Raise: func(context.Context) error {
					gate.Step("before the raise")
					defer gate.Step("after the raise")
					if k.raisesLate {
						return nil
					}
					return k.enter(r, func() {})
				},
				Write: func(_ context.Context, value string) error {
					gate.Step("before the check")
					defer gate.Step("after the write")
					return k.write(r, value, gate)
				},
			}
		},
	}
}

func (k *kept) write(r fence.Run, value string, gate *Gate) error {
	switch {
	case k.checksApart:
		err := k.enter(r, func() {})
		gate.Step("between check and write")
		if err == nil {
			k.set(value)
		}
		return err
	case k.tears:
		if err := k.enter(r, func() { k.set(value[:len(value)/2]) }); err != nil {
			return err
		}
		gate.Step("in the middle")
	case k.denies && gate != nil && r.Token >= firstToken:
		if err := k.enter(r, func() { k.set(value) }); err != nil {
			return err
		}
		return &fence.StaleError{Resource: "memory", Token: r.Token}
	}
	return k.enter(r, func() { k.set(value) })
}

func (k *kept) set(value string) {
	k.reading.Lock()
	defer k.reading.Unlock()
	k.value = value
}

func (k *kept) enter(r fence.Run, write func()) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	below := r.Token < k.highest
	if k.imprecise {
		below = float32(r.Token) < float32(k.highest)
	}
	if below || k.strict && r.Token == k.highest {
		return &fence.StaleError{Resource: "memory", Token: r.Token, Highest: k.highest}
	}
	k.highest = r.Token
	write()
	return nil
}

func TestGoodResource(t *testing.T) { Run(t, (&kept{}).subject()) }

// A suite that passes everything proves nothing.
func TestBadResourcesAreFound(t *testing.T) {
	for name, k := range map[string]*kept{
		"the check and the write are two steps":         {checksApart: true},
		"the fence is not raised first":                 {raisesLate: true},
		"a write can be seen in its middle":             {tears: true},
		"an equal token is refused":                     {strict: true},
		"tokens are compared as floating-point numbers": {imprecise: true},
		"a write is done and refused":                   {denies: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			var run sync.WaitGroup
			run.Go(func() { Run(r, k.subject()) })
			run.Wait()
			if !r.failed {
				t.Error("it passes")
			}
		})
	}
}

// recorder is a test whose failure is what is wanted.
type recorder struct {
	testing.TB

	failed bool
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.Logf("found: "+format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool { return r.failed }
