package consul

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

// ancient is a record of long ago, when an earlier run with a shorter lease was under way.
func ancient(job string) string { return `{"job":"` + job + `","token":5,"ttl":1,"beat":7}` }

// TestStop: the holder is told at once, and its next renewal says why.
func TestStop(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	for job, tamper := range map[string]func(job string){
		"as it is":           func(string) {},
		"record deleted":     func(job string) { o.remove(t, job, recordName) },
		"record rolled back": func(job string) { o.put(t, job, recordName, ancient(job)) },
	} {
		g := steps.Acquire(d, claim(job, "holder", time.Minute))
		tamper(job)
		ch := watch(t, d, job)
		told(t, "the watch stands", ch, suite.Looks)
		stop := suite.NewOrder(backends.Stop, g)
		steps.Order(other, stop)
		told(t, job, ch, suite.Looks)
		signal, err := d.Renew(t.Context(), g)
		if err != nil || signal.Break == nil || signal.Break.By != stop.By || signal.Break.Reason != stop.Reason {
			t.Errorf("%s: the renewal says %+v, %v", job, signal.Break, err)
		}
		steps.Refused(other, claim(job, "another", time.Minute), backends.Held)
		steps.Finish(d, g)
		steps.WantOver("Stop", other.Order(t.Context(), suite.NewOrder(backends.Stop, g)))
	}
}

// TestTombstone: nobody is granted within a TTL of the order, also who has counted the holder's silence for longer;
// the holder hears of it, and can neither renew nor finish. Consul adds no delay of its own.
func TestTombstone(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	g := steps.Acquire(d, claim("job", "holder", time.Minute))
	standby := claim("job", "standby", time.Minute)
	standby.Seen = steps.Refused(other, standby, backends.Held).Seen
	standby.Seen.For = time.Hour
	ch := watch(t, other, "job")
	told(t, "the watch stands", ch, suite.Looks)
	steps.Order(other, suite.NewOrder(backends.Revoke, g))

	left, err := other.read(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	r := left.record
	if left.lock.session != "" || left.lock.owner.Token != 0 || r.Free() || r.Token <= g.Token || r.Beat <= standby.Seen.Beat {
		t.Fatalf("%+v", left)
	}
	tomb := backends.LastSeen{Token: r.Token, Beat: r.Beat}
	told(t, "the tombstone", ch, func(n backends.News) bool { return n.Look && n.Seen == tomb })
	if r := steps.Refused(other, standby, backends.Vanished); r.Wait != g.TTL || r.Seen != tomb {
		t.Errorf("who has seen the holder's last beat waits %v and is shown %+v; want %v, %+v", r.Wait, r.Seen, g.TTL, tomb)
	}
	steps.Lost(d, g)
	if err := d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Finish: %v", err)
	}
	steps.WantOver("Revoke", other.Order(t.Context(), suite.NewOrder(backends.Revoke, g)))
	if n := o.sessions(t); n != 0 {
		t.Errorf("%d sessions", n)
	}
	standby.Seen = tomb
	standby.Seen.For = g.TTL
	next := steps.Acquire(other, standby)
	if next.Token <= tomb.Token {
		t.Errorf("token %d after %d", next.Token, tomb.Token)
	}
	steps.Finish(other, next)
}

// TestForceRelease: the job is free at once, without Consul's lock-delay.
func TestForceRelease(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	for job, prepare := range map[string]func(job string){
		"held":                       func(string) {},
		"lock deleted":               func(job string) { o.remove(t, job, lockName) },
		"record deleted":             func(job string) { o.remove(t, job, recordName) },
		"record rolled back":         func(job string) { o.put(t, job, recordName, ancient(job)) },
		"lock unlocked, record gone": func(job string) { o.release(t, job); o.remove(t, job, recordName) },
	} {
		g := steps.Acquire(d, claim(job, "holder", time.Minute))
		prepare(job)
		steps.Order(other, suite.NewOrder(backends.ForceRelease, g))
		steps.Lost(d, g)
		next := steps.Acquire(other, claim(job, "next", time.Minute))
		if next.Token <= g.Token {
			t.Errorf("%s: token %d after %d", job, next.Token, g.Token)
		}
		if err := d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}); !errors.Is(err, backends.ErrLost) {
			t.Errorf("%s: Finish: %v", job, err)
		}
		steps.WantOver("ForceRelease", other.Order(t.Context(), suite.NewOrder(backends.ForceRelease, g)))
		steps.Renew(other, next)
		steps.Finish(other, next)
	}
}

// TestForceReleaseAfterTheSession: who waits for a lease that vanished is told. The lock-delay of a session that ended
// before the order stays, and is told as a wait.
func TestForceReleaseAfterTheSession(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	g := steps.Acquire(d, claim("job", "holder", 6*time.Second))
	o.destroySession(t, o.session(t, "job"))
	ch := watch(t, other, "job")
	told(t, "the watch stands", ch, suite.Looks)
	steps.Order(other, suite.NewOrder(backends.ForceRelease, g))
	told(t, "the job is free", ch, suite.Looks)
	steps.Finish(other, claimUntil(t, other, claim("job", "next", time.Minute)))
}

// TestForgetJob: only a job that is free is forgotten, all but its token; no beat that was seen comes again.
func TestForgetJob(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	forget := suite.NewOrder(backends.ForgetJob, backends.Grant{Claim: backends.Claim{Job: "job"}})
	if err := d.Order(t.Context(), forget); !errors.Is(err, backends.ErrUnknownJob) {
		t.Errorf("a job that nobody has run: %v", err)
	}
	g := steps.Acquire(d, claim("job", "holder", time.Minute))
	refuses := func(want backends.Verdict) {
		t.Helper()
		err := other.Order(t.Context(), forget)
		if r, ok := errors.AsType[*backends.Refusal](err); !ok || r.Verdict != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refuses(backends.Held)
	o.remove(t, "job", lockName)
	refuses(backends.Vanished)
	steps.Finish(d, g)
	steps.Order(other, forget)
	left, err := other.read(t.Context(), "job")
	if err != nil || left.record.Token != g.Token || !left.record.Free() || len(left.record.Runs) != 0 || left.record.Beat == 0 {
		t.Errorf("%+v, %v", left, err)
	}
	next := steps.Acquire(other, claim("job", "next", time.Minute))
	if next.Token <= g.Token {
		t.Errorf("token %d after %d", next.Token, g.Token)
	}
	steps.Finish(other, next)
}

// TestOrderOvertaken: what comes between an order's two steps is neither lost nor overlooked.
func TestOrderOvertaken(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o, m := operate(t, s.URL()), between(t, s)
	d, other := open(t, m.url()), open(t, s.URL())
	tick := time.Now().Unix() - 10
	var next backends.Grant
	for job, test := range map[string]struct {
		meanwhile func(g backends.Grant)
		verdict   error
		asks      string
	}{
		"a renewal": {func(g backends.Grant) { steps.Renew(other, g) }, nil, "kv txn kv txn session/destroy"},
		"a candidate notes its tick": {func(g backends.Grant) {
			c := claim(g.Claim.Job, "candidate", time.Minute)
			c.Tick = tick
			steps.Refused(other, c, backends.Held)
		}, nil, "kv txn kv txn session/destroy"},
		"the end": {func(g backends.Grant) { steps.Finish(other, g) }, backends.ErrOver, "kv txn kv"},
		"the next run": {func(g backends.Grant) {
			steps.Finish(other, g)
			next = steps.Acquire(other, claim(g.Claim.Job, "next", time.Minute))
		}, backends.ErrOver, "kv txn kv"},
		"the lock is deleted": {func(g backends.Grant) { o.remove(t, g.Claim.Job, lockName) }, nil, "kv txn kv"},
	} {
		g := steps.Acquire(other, claim(job, "holder", time.Minute))
		done := false
		m.strike(func(r *http.Response) bool {
			if what(r.Request) == "kv" && !done {
				done = true
				test.meanwhile(g)
			}
			return true
		})
		m.requests()
		kind := backends.Revoke
		if job == "the lock is deleted" { // which an order that takes it away would find anyway
			kind = backends.Stop
		}
		err := d.Order(t.Context(), suite.NewOrder(kind, g))
		m.strike(nil)
		refusal, _ := errors.AsType[*backends.Refusal](err)
		switch {
		case job == "the lock is deleted":
			if refusal == nil || refusal.Verdict != backends.Vanished {
				t.Errorf("%s: %v", job, err)
			}
		case !errors.Is(err, test.verdict):
			t.Errorf("%s: %v, want %v", job, err, test.verdict)
		}
		if got := m.requests(); got != test.asks {
			t.Errorf("%s: asked %q, want %q", job, got, test.asks)
		}
		if left, err := other.read(t.Context(), job); err != nil || job == "a candidate notes its tick" && left.record.Passed != tick {
			t.Errorf("%s: %+v, %v", job, left, err)
		}
	}
	steps.Renew(other, next)
}

// TestOrderLostReplies: whichever reply is lost, the order was carried out or not, and the same order again sees to it
// that it is, once.
func TestOrderLostReplies(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	m := between(t, s)
	d, other := open(t, m.url()), open(t, s.URL())
	for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke, backends.ForceRelease, backends.ForgetJob} {
		for _, request := range []string{"kv", "txn", "session/destroy"} {
			job := string(kind) + " " + request[:2]
			g := steps.Acquire(other, claim(job, "holder", time.Minute))
			if kind == backends.ForgetJob {
				steps.Finish(other, g)
			}
			order := suite.NewOrder(kind, g)
			ctx, unknown := m.unanswered(t, request), request != "session/destroy"
			if !unknown { // that is not waited for
				ctx = t.Context()
			}
			err := d.Order(ctx, order)
			_, answer := errors.AsType[*backends.Refusal](err)
			if unknown != (err != nil) || answer || errors.Is(err, backends.ErrOver) || backends.IsPermanent(err) {
				t.Fatalf("%s: %v", job, err)
			}
			m.strike(nil)
			once, err := other.read(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Order(t.Context(), order); err != nil {
				t.Errorf("%s: again: %v", job, err)
			}
			again, err := other.read(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if request == "kv" {
				once = again
			}
			r := once.record
			frees := slices.Contains([]backends.OrderKind{backends.ForceRelease, backends.ForgetJob}, kind)
			switch {
			case kind != backends.Stop && again.index != once.index, again.lock != once.lock:
				t.Errorf("%s: carried out twice: %+v, then %+v", job, once, again)
			case (r.Break != nil) != (kind == backends.Stop), (once.lock.session != "") != (kind == backends.Stop), r.Free() != frees:
				t.Errorf("%s: %+v", job, once)
			}
		}
	}
}

// TestRevokeWithoutRecord: a record that was lost does not say which tick the holder runs. Its next renewal does.
func TestRevokeWithoutRecord(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	for job, tamper := range map[string]func(job string){
		"deleted":     func(job string) { o.remove(t, job, recordName) },
		"rolled back": func(job string) { o.put(t, job, recordName, ancient(job)) },
	} {
		g := steps.Acquire(d, claim(job, "holder", time.Minute))
		tamper(job)
		revoke := suite.NewOrder(backends.Revoke, g)
		if err := other.Order(t.Context(), revoke); !errors.Is(err, backends.ErrLags) {
			t.Errorf("record %s: %v, want ErrLags", job, err)
		}
		steps.Renew(d, g)
		steps.Order(other, revoke)
		r := steps.Refused(other, claim(job, "newcomer", shortTTL), backends.Vanished)
		if r.Wait != g.TTL || r.Token <= g.Token {
			t.Errorf("record %s: a newcomer waits %v behind %d, want %v behind more than %d", job, r.Wait, r.Token, g.TTL, g.Token)
		}
		steps.Lost(d, g)
	}
}
