package zookeeper

import (
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
	w.finish(w.other, w.acquire(w.other, newClaim("job")))
	d := open(t, w.server.URL())
	var between atomic.Bool
	d.between = func(calls []*wire.Call, send func() error) error {
		if isWrite(calls) && between.CompareAndSwap(false, true) {
			w.finish(w.other, w.acquire(w.other, claim()))
		}
		return send()
	}
	w.refused(d, claim(), backends.Verdict(backends.Done))
	w.runs("job", 2)
}
