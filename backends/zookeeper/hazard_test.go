package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

var errLost = errors.New("the reply was lost")

// short is the TTL of a lease that is to run out; the servers here grant it.
const short = 1500 * time.Millisecond

// isWrite says whether calls are the step that writes.
func isWrite(calls []*wire.Call) bool { return len(calls) <= 2 }

// TestNoGhostLease: the connection is killed between the making of the lease and the reply (samuel/go-zookeeper#229,
// #237). Whoever claimed may ask again, or take the claim back, or be gone; the lease that nobody knows of keeps the job
// from nobody for longer than a TTL.
func TestNoGhostLease(t *testing.T) {
	servers.SkipShort(t)
	w := newWorld(t)
	w.Finish(w.other, w.Acquire(w.other, newClaim("job"))) // the first claim of all makes the folder
	claim := func(ttl time.Duration) (*driver, backends.Claim) {
		t.Helper()
		proxy := servers.NewProxy(t, w.server.Addr())
		d := open(t, "zk://"+proxy.Addr())
		var cutting atomic.Bool
		d.store.between = func(calls []*wire.Call, send func() error) error {
			if isWrite(calls) && cutting.CompareAndSwap(false, true) {
				proxy.CutReplies(true)
				defer proxy.CutReplies(false)
			}
			return send()
		}
		c := newClaim("job")
		c.TTL = ttl
		g, err := d.Acquire(t.Context(), c)
		w.WantUnknown(fmt.Sprintf("Acquire: %+v", g), err)
		servers.Eventually(t, "the claim is applied", func() bool {
			return stateOf(t, w.operator, "job").record.Holder.ID == c.Holder.ID
		})
		return d, c
	}
	t.Log("asked again: the same grant, under a session that its holder has")
	d, c := claim(time.Minute)
	ghost := stateOf(t, w.operator, "job")
	w.Refused(w.other, newClaim("job"), backends.Held)
	g := w.Acquire(d, c)
	now := stateOf(t, w.operator, "job")
	if g.Token != ghost.label.Token || now.owner == ghost.owner || now.owner != sessionOf(g).id() {
		t.Errorf("token %d, was %+v, is %+v", g.Token, ghost, now)
	}
	w.Renew(d, g)
	w.Finish(d, g)

	t.Log("taken back: free")
	d, c = claim(time.Minute)
	if err := d.Abandon(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.Finish(w.other, w.Acquire(w.other, newClaim("job")))

	t.Log("gone: the lease ends by itself, and is waited for")
	d, _ = claim(short)
	_ = d.Close()
	w.expired("job")
	w.Refused(w.other, newClaim("job"), backends.Vanished)
}

// TestExpiryWhileStopped: the holder learns of the end of its session when it comes back, not before (samuel's #20): the
// answer is that the lease is lost, at the first renewal and at every later one, and also when somebody else has it.
func TestExpiryWhileStopped(t *testing.T) {
	w := newWorld(t)
	proxy := servers.NewProxy(t, w.server.Addr())
	d := open(t, "zk://"+proxy.Addr())
	c := newClaim("job")
	c.TTL = short
	g := w.Acquire(d, c)
	proxy.DropAll(true) // as if it was stopped
	w.expired("job")
	next := newClaim("job")
	next.Seen = w.Refused(w.other, newClaim("job"), backends.Vanished).Seen
	next.Seen.For = c.TTL
	granted := w.Acquire(w.other, next)
	proxy.Cut()
	proxy.DropAll(false)
	for range 2 {
		_, err := d.Renew(t.Context(), g)
		w.WantLost("Renew", err)
	}
	w.WantLost("Finish", d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
	w.Renew(w.other, granted)
	w.Finish(w.other, granted)
	w.runs("job", 2)
}

// TestSuspendedIsNoLoss: a connection that is gone says nothing of the lease. The renewal fails, which is no loss, and
// the next one goes on with the session on a new connection.
func TestSuspendedIsNoLoss(t *testing.T) {
	w := newWorld(t)
	proxy := servers.NewProxy(t, w.server.Addr())
	d := open(t, "zk://"+proxy.Addr())
	g := w.Acquire(d, newClaim("job"))
	id := sessionOf(g).id()
	proxy.DropAll(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := d.Renew(ctx, g)
	w.WantUnknown("Renew at a server that cannot be reached", err)
	proxy.DropAll(false)
	w.Renew(d, g)
	cut(sessionOf(g))
	w.Renew(d, g)
	if now := stateOf(t, w.operator, "job"); now.owner != id || sessionOf(g).id() != id {
		t.Errorf("session %x, the lease is of %x, want %x", sessionOf(g).id(), now.owner, id)
	}
	w.Finish(d, g)
}

// TestSilentServer: a renewal beside one that is not answered goes out on a connection of its own, to which the session
// moves; one beside a renewal that is answered does not.
func TestSilentServer(t *testing.T) {
	w := newWorld(t)
	for name, more := range map[string]string{"two hosts": "," + w.server.Addr(), "one": ""} {
		proxy := servers.NewProxy(t, w.server.Addr())
		d := open(t, "zk://"+proxy.Addr()+more)
		c := newClaim(name)
		c.TTL = 10 * time.Second
		g := w.Acquire(d, c)
		id := sessionOf(g).id()
		proxy.DropAll(true)
		ctx, cancel := context.WithCancel(t.Context())
		silent := make(chan error)
		go func() {
			_, err := d.Renew(ctx, g)
			silent <- err
		}()
		s := sessionOf(g)
		servers.Eventually(t, "silent", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.conn.Silent() >= c.TTL/patient
		})
		if more == "" { // the old connection stays silent, a new one does not
			proxy.DropAll(false)
		}
		w.Renew(d, g)
		cancel()
		<-silent
		if now := stateOf(t, w.operator, name); now.owner != id {
			t.Errorf("%s: the lease is of %x, want %x", name, now.owner, id)
		}
		w.Finish(d, g)
	}
}

// TestDeletedByHand: an operator deletes the lease, empties the record, or deletes both.
func TestDeletedByHand(t *testing.T) {
	w := newWorld(t)
	k := w.nodes("job")
	g := w.Acquire(w.d, newClaim("job"))
	w.Renew(w.d, g)
	operate(t, w.operator, wire.Delete(k.lease, -1))
	before := stateOf(t, w.operator, "job")
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew without a lease", err)
	if now := stateOf(t, w.operator, "job"); now.written != before.written {
		t.Error("a renewal that is lost is a sign of life to those who wait")
	}
	w.Refused(w.other, newClaim("job"), backends.Vanished)
	w.Finish(w.d, g)

	g = w.Acquire(w.d, newClaim("job"))
	operate(t, w.operator, wire.SetData(k.record, nil, -1))
	w.Refused(w.other, newClaim("job"), backends.Held)
	w.Renew(w.d, g)
	if r := stateOf(t, w.operator, "job").record; r.Token != g.Token {
		t.Errorf("the record is not written anew: %+v", r)
	}
	w.Finish(w.d, g)
}

// TestEmptiedByHand: who deletes lease and record has removed every trace of a run, and the job is free at once. The old
// run ends at its next step, whichever versions the new nodes have by then, and takes nothing from the new one.
func TestEmptiedByHand(t *testing.T) {
	w := newWorld(t)
	k := w.nodes("job")
	for _, step := range []string{"Renew", "Finish"} {
		for renewals := range 3 {
			g := w.Acquire(w.d, newClaim("job"))
			w.Renew(w.d, g)
			operate(t, w.operator, wire.Delete(k.lease, -1), wire.Delete(k.record, -1))
			next := w.Acquire(w.other, newClaim("job"))
			for range renewals { // one of these has the version that the old run knows
				w.Renew(w.other, next)
			}
			var err error
			if step == "Renew" {
				_, err = w.d.Renew(t.Context(), g)
			} else {
				err = w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done})
			}
			w.WantLost(fmt.Sprint(step, " after ", renewals), err)
			w.Renew(w.other, next)
			now := stateOf(t, w.operator, "job")
			if !now.held || now.label != backends.LabelOf(next) || now.record.Token != next.Token {
				t.Errorf("%s after %d: %+v, want %+v", step, renewals, now, next)
			}
			if next.Token <= g.Token {
				t.Errorf("token %d after %d", next.Token, g.Token)
			}
			w.Finish(w.other, next)
			operate(t, w.operator, wire.Delete(k.record, -1))
		}
	}
}

// TestNoBeatComesTwice: somebody puts back what the record once was. A sign of life that a candidate has seen long ago
// must not come again.
func TestNoBeatComesTwice(t *testing.T) {
	w := newWorld(t)
	k := w.nodes("job")
	g := w.Acquire(w.d, newClaim("job"))
	candidate := newClaim("job")
	candidate.Seen = w.Refused(w.other, candidate, backends.Held).Seen
	candidate.Seen.For = time.Hour
	first := stateOf(t, w.operator, "job").record
	w.Renew(w.d, g)
	operate(t, w.operator, wire.SetData(k.record, backends.Marshal(stored{first, 1}), -1), wire.Delete(k.lease, -1))
	if r := w.Refused(w.other, candidate, backends.Vanished); r.Wait != g.TTL {
		t.Errorf("waits %v beside a live holder, want %v", r.Wait, g.TTL)
	}
	w.Finish(w.d, g)
}

// TestRecordPutBackIsWrittenAgain: what is written over a record that somebody put back can be read.
func TestRecordPutBackIsWrittenAgain(t *testing.T) {
	w := newWorld(t)
	k := w.nodes("job")
	g := w.Acquire(w.d, newClaim("job"))
	first := stateOf(t, w.operator, "job").record
	w.Renew(w.d, g)
	operate(t, w.operator, wire.SetData(k.record, backends.Marshal(stored{first, 1}), -1))
	w.Finish(w.d, g)
	if r := stateOf(t, w.operator, "job").record; r.Beat < 0 || len(r.Runs) != 1 {
		t.Errorf("%+v", r)
	}
	w.Finish(w.other, w.Acquire(w.other, newClaim("job")))
}

// TestForeignNodes: what leaderrun did not write is never taken for a free job, never overwritten, and named.
func TestForeignNodes(t *testing.T) {
	w := newWorld(t)
	k := w.nodes("job")
	foreign := func(what, node string) {
		t.Helper()
		_, acquire := w.other.Acquire(t.Context(), newClaim("job"))
		_, inspect := w.other.Inspect(t.Context(), "job")
		for step, err := range map[string]error{"Acquire": acquire, "Inspect": inspect} {
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != backends.Configuration || !strings.Contains(err.Error(), node) {
				t.Errorf("%s: %s: %v", what, step, err)
			}
		}
	}
	g := w.Acquire(w.d, newClaim("job"))
	for _, data := range []string{"", "x", "null", `{"holder":"a"}`, `{"holder":1,"token":1}`, string(backends.Marshal(backends.LabelOf(g)))} {
		operate(t, w.operator, wire.Delete(k.lease, -1), wire.Create(k.lease, []byte(data), wire.World(), false))
		foreign(fmt.Sprintf("lease %q", data), k.lease)
		_, err := w.d.Renew(t.Context(), g)
		w.WantLost("Renew", err)
		if !stateOf(t, w.operator, "job").held {
			t.Errorf("lease %q is gone", data)
		}
	}
	operate(t, w.operator, wire.Delete(k.lease, -1))
	for _, data := range []string{"x", "null", "[]", `{"token":"x"}`, "\xff\x00"} {
		operate(t, w.operator, wire.SetData(k.record, []byte(data), -1))
		foreign(fmt.Sprintf("record %q", data), k.record)
	}
}

// TestServerGrantsLess: a session that may end before its lease does is no lease.
func TestServerGrantsLess(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{MaxSessionTimeout: 5 * time.Second})
	d := open(t, s.URL())
	_, err := d.Acquire(t.Context(), newClaim("job"))
	p, ok := errors.AsType[*backends.PermanentError](err)
	if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Hint, "maxSessionTimeout=60000") || !strings.Contains(p.Hint, "--ttl 5s") {
		t.Errorf("%+v", err)
	}
	found := d.Examine(t.Context(), time.Minute)
	grades(t, found, map[string]backends.Grade{"sessions": backends.Bad})
	c := newClaim("job")
	c.TTL = 100 * time.Millisecond // which it makes longer
	g := suite.On(t).Acquire(d, c)
	if g.TTL != time.Second || g.Claim.TTL != c.TTL {
		t.Errorf("TTL %v of a claim for %v, want a second", g.TTL, g.Claim.TTL)
	}
}
