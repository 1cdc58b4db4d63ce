package etcd

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/suite"
)

// ancient is a record of long ago, when an earlier run with a shorter lease was under way.
func ancient(job string) []byte { return []byte(`{"job":"` + job + `","token":5,"ttl":1}`) }

// watches returns a watch that stands.
func (w *world) watches(job string) <-chan backends.News {
	w.Helper()
	ch, err := w.other.Watch(w.Context(), job)
	if err != nil {
		w.Fatal(err)
	}
	w.tells("the watch stands", ch, backends.News{Look: true})
	return ch
}

// TestStop: the holder and those who wait are told at once, and the holder's next renewal says why.
func TestStop(t *testing.T) {
	w := newWorld(t)
	for job, tamper := range map[string]func(record []byte) rpc.Op{
		"as it is":       func(record []byte) rpc.Op { return rpc.Op{Range: &rpc.Range{Key: record}} },
		"record deleted": func(record []byte) rpc.Op { return rpc.Op{Delete: record} },
		"record rolled back": func(record []byte) rpc.Op {
			return rpc.Op{Put: &rpc.Put{Key: record, Value: ancient("record rolled back")}}
		},
	} {
		g := w.Acquire(w.d, newClaim(job))
		w.operator.do(t, tamper(w.d.store.cfg.keys(job).record))
		ch := w.watches(job)
		o := suite.NewOrder(backends.Stop, g)
		w.Order(w.other, o)
		w.tells(job, ch, backends.News{Look: true})
		if s := w.Renew(w.d, g); s.Break == nil || s.Break.By != o.By || s.Break.Reason != o.Reason {
			t.Errorf("%s: the renewal says %+v", job, s.Break)
		}
		w.Refused(w.other, newClaim(job), backends.Held)
		w.Finish(w.d, g)
		w.WantOver("after the end", w.other.Order(t.Context(), suite.NewOrder(backends.Stop, g)))
	}
}

// TestTombstone: nobody is granted within a TTL of the order, also who has counted the holder's silence for longer;
// the holder hears of it, and can neither renew nor finish.
func TestTombstone(t *testing.T) {
	w := newWorld(t)
	c := newClaim("job")
	g := w.Acquire(w.d, c)
	standby := newClaim("job")
	standby.Seen = w.Refused(w.other, standby, backends.Held).Seen
	standby.Seen.For = time.Hour
	ch := w.watches("job")
	w.Order(w.other, suite.NewOrder(backends.Revoke, g))

	s := w.operator.state(t, "job")
	tomb := backends.LastSeen{Token: s.record.Token, Beat: s.beaten}
	if s.held || s.record.Free() || tomb.Token <= g.Token || tomb.Beat <= standby.Seen.Beat {
		t.Fatalf("%+v", s)
	}
	w.tells("the tombstone", ch, backends.News{Look: true, Seen: tomb})
	if r := w.Refused(w.other, standby, backends.Vanished); r.Wait != c.TTL || r.Seen != tomb {
		t.Errorf("who has seen the holder's last beat waits %v and is shown %+v; want %v, %+v", r.Wait, r.Seen, c.TTL, tomb)
	}
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
	w.WantLost("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
	w.WantOver("once more", w.other.Order(t.Context(), suite.NewOrder(backends.Revoke, g)))
	if list := w.server.Ctl(t, "lease", "list"); !strings.Contains(list, "found 0 leases") {
		t.Errorf("etcdctl lease list: %s", list)
	}
	standby.Seen = tomb
	standby.Seen.For = c.TTL
	next := w.Acquire(w.other, standby)
	if next.Token <= tomb.Token {
		t.Errorf("token %d after %d", next.Token, tomb.Token)
	}
	w.Finish(w.other, next)
}

// TestForceRelease: the job is free at once, whether the lease is there or has vanished, and who waits is told.
func TestForceRelease(t *testing.T) {
	w := newWorld(t)
	for name, prepare := range map[string]func(){
		"held":           func() {},
		"vanished":       func() { w.operator.deleteLease(t, "job") },
		"record deleted": func() { w.operator.deleteRecord(t, "job") },
	} {
		g := w.Acquire(w.d, newClaim("job"))
		prepare()
		ch := w.watches("job")
		w.Order(w.other, suite.NewOrder(backends.ForceRelease, g))
		w.tells(name, ch, backends.News{Look: true})
		_, err := w.d.Renew(t.Context(), g)
		w.WantLost("Renew", err)
		next := w.Acquire(w.other, newClaim("job"))
		if next.Token <= g.Token {
			t.Errorf("%s: token %d after %d", name, next.Token, g.Token)
		}
		w.WantLost("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
		w.WantOver("of the run before", w.other.Order(t.Context(), suite.NewOrder(backends.ForceRelease, g)))
		w.Renew(w.other, next)
		w.Finish(w.other, next)
	}
}

// TestForgetJob: only a job that is free is forgotten, all but its token; no beat that was seen comes again.
func TestForgetJob(t *testing.T) {
	w := newWorld(t)
	o := suite.NewOrder(backends.ForgetJob, backends.Grant{Claim: newClaim("job")})
	if err := w.d.Order(t.Context(), o); !errors.Is(err, backends.ErrUnknownJob) {
		t.Errorf("a job that nobody has run: %v", err)
	}
	g := w.Acquire(w.d, newClaim("job"))
	refused := func(want backends.Verdict) {
		t.Helper()
		err := w.other.Order(t.Context(), o)
		if r, ok := errors.AsType[*backends.Refusal](err); !ok || r.Verdict != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused(backends.Held)
	w.operator.deleteLease(t, "job")
	refused(backends.Vanished)
	w.Finish(w.d, g)
	before := w.operator.state(t, "job")
	w.Order(w.other, o)
	s := w.operator.state(t, "job")
	if s.record.Token != g.Token || !s.record.Free() || len(s.record.Runs) != 0 || s.beaten != before.beaten {
		t.Errorf("%+v", s)
	}
	if next := w.Acquire(w.other, newClaim("job")); next.Token <= g.Token {
		t.Errorf("token %d after %d", next.Token, g.Token)
	}
}

// TestOrderOvertaken: what comes between an order's two steps is neither lost nor overlooked. The holder's last beat
// counts, too: what the order says of the time that is left is of that one.
func TestOrderOvertaken(t *testing.T) {
	w := newWorld(t)
	tick := time.Now().Unix() - 10
	for name, test := range map[string]struct {
		meanwhile func(g backends.Grant)
		over      bool
		asks      string
	}{
		"a renewal": {func(g backends.Grant) { w.Renew(w.d, g) }, false, "read swap swap revoke"},
		"a candidate notes its tick": {func(g backends.Grant) {
			candidate := newClaim(g.Claim.Job)
			candidate.Tick = tick
			w.Refused(w.d, candidate, backends.Held)
		}, false, "read swap swap revoke"},
		"the end": {func(g backends.Grant) { w.Finish(w.d, g) }, true, "read swap"},
		"the next run": {func(g backends.Grant) {
			w.Finish(w.d, g)
			w.Acquire(w.d, newClaim(g.Claim.Job))
		}, true, "read swap"},
		"the lease vanishes": {func(g backends.Grant) { w.operator.deleteLease(t, g.Claim.Job) }, false, "read swap"},
	} {
		g := w.Acquire(w.d, newClaim(name))
		d := open(t, w.server.URL())
		var asked []string
		var done bool
		intercept(d, func(request string) {
			asked = append(asked, request)
			if request == "swap" && !done {
				done = true
				test.meanwhile(g)
			}
		}, nil)
		err := d.Order(t.Context(), suite.NewOrder(backends.Revoke, g))
		s := w.operator.state(t, name)
		refusal, _ := errors.AsType[*backends.Refusal](err)
		switch {
		case test.over != errors.Is(err, backends.ErrOver):
			t.Errorf("%s: %v", name, err)
		case name == "the lease vanishes" && (refusal == nil || refusal.Verdict != backends.Vanished):
			t.Errorf("%s: %v, want a refusal", name, err)
		case test.over && s.held != (name == "the next run"):
			t.Errorf("%s: held: %v", name, s.held)
		case name == "a candidate notes its tick" && s.record.Passed != tick:
			t.Errorf("%s: passed %d, want %d", name, s.record.Passed, tick)
		}
		if got := strings.Join(asked, " "); got != test.asks {
			t.Errorf("%s: asked %q, want %q", name, got, test.asks)
		}
	}
}

// TestOrderLostReplies: whichever reply is lost, the order was carried out or not, and the same order again sees to it
// that it is, once.
func TestOrderLostReplies(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke, backends.ForceRelease, backends.ForgetJob} {
		for _, request := range []string{"read", "swap", "revoke"} {
			name := string(kind) + " " + request
			g := w.Acquire(w.d, newClaim(name))
			if kind == backends.ForgetJob {
				w.Finish(w.d, g)
			}
			d := open(t, w.server.URL())
			var lost atomic.Bool
			intercept(d, nil, func(r string) error {
				if r == request && lost.CompareAndSwap(false, true) {
					return errLost
				}
				return nil
			})
			o := suite.NewOrder(kind, g)
			err := d.Order(t.Context(), o)
			if unknown := request != "revoke"; unknown != (err != nil) || unknown && backends.IsAnswer(err) {
				t.Fatalf("%s: %v", name, err)
			}
			once := w.operator.state(t, name)
			if err := d.Order(t.Context(), o); err != nil {
				t.Errorf("%s: again: %v", name, err)
			}
			again := w.operator.state(t, name)
			if request == "read" {
				once = again
			}
			asked := once.record.Break != nil && once.record.Break.Token == g.Token
			switch {
			case kind != backends.Stop && again.written != once.written, again.beaten != once.beaten:
				t.Errorf("%s: carried out twice: %+v, then %+v", name, once, again)
			case asked != (kind == backends.Stop), once.held != (kind == backends.Stop):
				t.Errorf("%s: %+v", name, once)
			case once.record.Free() != slices.Contains([]backends.OrderKind{backends.ForceRelease, backends.ForgetJob}, kind):
				t.Errorf("%s: released %d of %d", name, once.record.Released, once.record.Token)
			}
		}
	}
}

// TestRevokeWithoutRecord: a record that was lost does not say which tick the holder runs. Its next renewal does.
func TestRevokeWithoutRecord(t *testing.T) {
	w := newWorld(t)
	for name, tamper := range map[string]rpc.Op{
		"deleted":     {Delete: w.d.store.cfg.keys("job").record},
		"rolled back": {Put: &rpc.Put{Key: w.d.store.cfg.keys("job").record, Value: ancient("job")}},
	} {
		c := newClaim("job")
		g := w.Acquire(w.d, c)
		w.operator.do(t, tamper)
		revoke := suite.NewOrder(backends.Revoke, g)
		if err := w.other.Order(t.Context(), revoke); !errors.Is(err, backends.ErrLags) {
			t.Errorf("record %s: %v, want ErrLags", name, err)
		}
		w.Renew(w.d, g)
		w.Order(w.other, revoke)
		r := w.Refused(w.other, newClaim("job"), backends.Vanished)
		if r.Wait != c.TTL {
			t.Errorf("record %s: a newcomer waits %v, want %v", name, r.Wait, c.TTL)
		}
		w.Order(w.other, suite.NewOrder(backends.ForceRelease, backends.Grant{Claim: c, Token: r.Token}))
	}
}

// TestOrderOfForeignKeys: an order touches no lease that somebody else has written.
func TestOrderOfForeignKeys(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	k := w.d.store.cfg.keys("job")
	w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: k.lease, Value: []byte("x")}})
	before := w.operator.state(t, "job")
	for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke, backends.ForceRelease, backends.ForgetJob} {
		if err := w.other.Order(t.Context(), suite.NewOrder(kind, g)); !backends.IsPermanent(err) || !strings.Contains(err.Error(), string(k.lease)) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if s := w.operator.state(t, "job"); s.leased != before.leased || s.written != before.written {
		t.Errorf("was %+v, is %+v", before, s)
	}
}
