package zookeeper

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
)

// TestStaleDecision: between the reading and the writing of a claim another host runs the tick to its end, so that the
// lease is free again. What was decided on is no more, and the tick must not run twice.
func TestStaleDecision(t *testing.T) {
	w := newWorld(t)
	tick := time.Now().Unix()
	claim := func() backends.Claim {
		c := newClaim("job")
		c.Tick = tick
		return c
	}
	w.Finish(w.other, w.Acquire(w.other, newClaim("job")))
	d := open(t, w.server.URL())
	var between atomic.Bool
	d.store.between = func(calls []*wire.Call, send func() error) error {
		if isWrite(calls) && between.CompareAndSwap(false, true) {
			w.Finish(w.other, w.Acquire(w.other, claim()))
		}
		return send()
	}
	w.Refused(d, claim(), backends.Verdict(backends.Done))
	w.runs("job", 2)
}

// TestAnotherRecord: between the reading and the writing of a claim an operator deletes the record, and another host runs the
// tick to its end, so that the new record has the version of the old one. What was written over is no grant.
func TestAnotherRecord(t *testing.T) {
	w := newWorld(t)
	c := newClaim("job")
	c.Tick = time.Now().Unix()
	w.Finish(w.other, w.Acquire(w.other, newClaim("job")))
	d := open(t, w.server.URL())
	var between atomic.Bool
	d.store.between = func(calls []*wire.Call, send func() error) error {
		if isWrite(calls) && between.CompareAndSwap(false, true) {
			before := stateOf(t, w.operator, "job")
			operate(t, w.operator, wire.Delete(w.nodes("job").record, -1))
			same := newClaim("job")
			same.Tick = c.Tick
			w.Finish(w.other, w.Acquire(w.other, same))
			if now := stateOf(t, w.operator, "job"); now.version != before.version || now.born == before.born {
				t.Errorf("no other record of the same version: %+v, was %+v", now, before)
			}
		}
		return send()
	}
	g, err := d.Acquire(t.Context(), c)
	w.WantUnknown(fmt.Sprintf("Acquire: %+v", g), err)
	if !between.Load() {
		t.Error("nothing was written")
	}
	if !t.Failed() {
		w.expired("job")
	}
}
