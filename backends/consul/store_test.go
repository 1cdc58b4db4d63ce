package consul

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// claimUntil claims as the runner does, keeping its evidence, until it is granted. Every refusal before must be
// that somebody's lease has vanished.
func claimUntil(t *testing.T, d *driver, c backends.Claim) backends.Grant {
	t.Helper()
	return suite.On(t).Outlast(d, c, func(r *backends.Refusal) bool { return r.Verdict == backends.Vanished && r.Wait > 0 })
}

// TestLostLease: whatever takes the lease from a living holder, the holder is told, and nobody is granted before a
// TTL has passed since its last renewal. The lock-delay alone would be over sooner: it begins when the session
// ends, which may be right after a renewal, and the holder may not be able to hear of it.
func TestLostLease(t *testing.T) {
	t.Parallel()
	s := server(t)
	o := operate(t, s.URL())
	destroy := func(t testing.TB, job string) { t.Helper(); o.destroySession(t, o.session(t, job)) }
	for name, strike := range map[string]func(t testing.TB, job string){
		"session destroyed": destroy,
		"lock deleted":      func(t testing.TB, job string) { t.Helper(); o.remove(t, job, lockName) },
		"lock released":     o.release,
		"lock deleted and session destroyed": func(t testing.TB, job string) {
			t.Helper()
			session := o.session(t, job)
			o.remove(t, job, lockName)
			o.destroySession(t, session)
		},
		"session destroyed and record deleted": func(t testing.TB, job string) {
			t.Helper()
			destroy(t, job)
			o.remove(t, job, recordName)
		},
		"record rolled back and session destroyed": func(t testing.TB, job string) {
			t.Helper()
			o.put(t, job, recordName, `{"job":"`+job+`","token":5,"released":5}`)
			destroy(t, job)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := suite.On(t)
			d, other := open(t, s.URL()), open(t, s.URL())
			g := steps.Acquire(d, claim(name, "holder", outlasting))
			standby := claim(name, "standby", outlasting)
			standby.Seen = steps.Refused(other, standby, backends.Held).Seen
			sent := time.Now()
			steps.Renew(d, g)
			strike(t, name)
			steps.Refused(other, claim(name, "newcomer", outlasting), backends.Vanished)
			steps.Refused(other, standby, backends.Vanished)
			steps.Lost(d, g)
			g.Private = nil
			steps.Lost(d, g)
			next := claimUntil(t, other, standby)
			if life := time.Since(sent); life < g.TTL {
				t.Errorf("granted %v after a renewal, want at least %v", life, g.TTL)
			}
			if next.Token <= g.Token {
				t.Errorf("token %d after %d", next.Token, g.Token)
			}
			steps.Renew(other, next)
			steps.Lost(d, g)
			if err := d.Finish(t.Context(), g, backends.Outcome{State: backends.Lost}); !errors.Is(err, backends.ErrLost) {
				t.Errorf("Finish: %v", err)
			}
			steps.Finish(other, next)
		})
	}
}

// TestBeatsNeverComeAgain: an operator deletes the record, the holder writes it anew, and then loses its lock while it
// cannot hear of it. Whoever saw its life before the deletion has not seen it since.
func TestBeatsNeverComeAgain(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	g := steps.Acquire(d, claim("job", "holder", outlasting))
	next := claim("job", "next", outlasting)
	next.Seen = steps.Refused(other, next, backends.Held).Seen
	o.remove(t, "job", recordName)
	steps.Renew(d, g)
	o.destroySession(t, o.session(t, "job"))
	next.Seen.For = time.Hour
	if r := steps.Refused(other, next, backends.Vanished); r.Seen.Token == next.Seen.Token && r.Seen.Beat <= next.Seen.Beat {
		t.Errorf("a sign of life came again: %+v after %+v", r.Seen, next.Seen)
	}
	steps.Lost(d, g)
}

// TestTransactionSentTwice: something between us and the server repeats the transaction of a claim. The second copy
// finds the first, and the claim finds its own session at work.
func TestTransactionSentTwice(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	m := between(t, s)
	d := open(t, m.url())
	var once sync.Once
	m.strike(func(r *http.Response) bool {
		if what(r.Request) == "txn" {
			once.Do(func() {
				r.StatusCode = http.StatusConflict
				r.Body = io.NopCloser(strings.NewReader(`{"Errors":[{"OpIndex":0,"What":"failed index check for key \"x\", current modify index 2 != 1"}]}`))
				r.ContentLength = -1
				r.Header.Del("Content-Length")
			})
		}
		return true
	})
	g := steps.Acquire(d, claim("job", "holder", time.Minute))
	steps.Renew(d, g)
	steps.Finish(d, g)
}

// TestLockDelay: where the record says that the run has ended, Consul's own lock-delay still holds after a session
// that ended with its lock. It is told as a wait; and no session is left behind by those who ask.
func TestLockDelay(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o := operate(t, s.URL())
	d, other := open(t, s.URL()), open(t, s.URL())
	g := steps.Acquire(d, claim("job", "holder", 3*time.Second))
	made, _, err := o.store.client.Session().Info(o.session(t, "job"), query(t.Context()))
	if err != nil || made.LockDelay != lockDelay(g.TTL) || made.TTL != "3s" || made.Behavior != api.SessionBehaviorRelease ||
		len(made.Checks)+len(made.NodeChecks)+len(made.ServiceChecks) != 0 || !strings.Contains(made.Name, "job, host, process 1") {
		t.Errorf("session %+v, %v", made, err)
	}
	before := time.Now()
	o.destroySession(t, made.ID)
	steps.Lost(d, g)
	steps.Finish(d, g)
	r := steps.Refused(other, claim("job", "next", shortTTL), backends.Vanished)
	if r.Wait != delayLook || r.Token != g.Token || r.Holder.ID != "holder" {
		t.Errorf("%+v", r)
	}
	next := claimUntil(t, other, claim("job", "next", shortTTL))
	if life, want := time.Since(before), lockDelay(g.TTL); life < want-20*time.Millisecond {
		t.Errorf("granted after %v, want the lock-delay of %v", life, want)
	}
	if n := o.sessions(t); n != 1 {
		t.Errorf("%d sessions, want that of the holder", n)
	}
	steps.Finish(other, next)
	if n := o.sessions(t); n != 0 {
		t.Errorf("%d sessions after the end", n)
	}
	for ttl, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 15 * time.Second: 10 * time.Second, time.Hour: time.Minute,
	} {
		if got := lockDelay(ttl); got != want {
			t.Errorf("lock-delay of %v: %v, want %v", ttl, got, want)
		}
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

// TestRoundTrips: what each step asks.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	m := between(t, s)
	d := open(t, m.url())
	asks := func(what, want string) {
		t.Helper()
		if got := m.requests(); got != want {
			t.Errorf("%s asks %q, want %q", what, got, want)
		}
	}
	g := steps.Acquire(d, claim("job", "a", time.Minute))
	asks("a grant", "kv session/create txn")
	steps.Renew(d, g)
	asks("a renewal", "session/renew txn")
	steps.Refused(d, claim("job", "b", time.Minute), backends.Held)
	asks("a refusal", "kv")
	c := claim("job", "b", time.Minute)
	c.Tick = time.Now().Unix()
	steps.Refused(d, c, backends.Held)
	asks("a refusal that is written down", "kv txn")
	steps.Renew(d, g)
	asks("a renewal after somebody else wrote", "session/renew txn kv session/renew txn")
	plain := g
	plain.Private = nil
	steps.Renew(d, plain)
	asks("a renewal of a grant from elsewhere", "kv session/renew txn")
	again := steps.Acquire(d, g.Claim)
	asks("a repeated claim", "kv session/renew txn")
	if again.Token != g.Token || again.Native != g.Native || g.Native == "" {
		t.Errorf("the same claim: %d %s, then %d %s", g.Token, g.Native, again.Token, again.Native)
	}
	steps.Finish(d, again)
	asks("finish", "txn session/destroy")
	steps.Finish(d, g)
	asks("finish again", "txn kv")
	steps.Lost(d, g)
	asks("a renewal after finish", "kv")
	next := steps.Acquire(d, claim("job", "c", time.Minute))
	if n, _ := strconv.Atoi(next.Native); n <= func() int { n, _ := strconv.Atoi(g.Native); return n }() {
		t.Errorf("native number %s after %s", next.Native, g.Native)
	}
	m.requests()
	if err := d.Abandon(t.Context(), next.Claim); err != nil {
		t.Error(err)
	}
	asks("abandon", "kv txn session/destroy")
	next = steps.Acquire(d, claim("job", "d", time.Minute))
	m.requests()
	steps.Order(d, suite.NewOrder(backends.Revoke, next))
	asks("an order that takes the lease away", "kv txn session/destroy")
}

// TestForeignKeys: another program's entries are an error, whoever reads them.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	s := server(t)
	o := operate(t, s.URL())
	d := open(t, s.URL())
	session, err := d.store.newSession(t.Context(), backends.Request{Job: "x", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for job, write := range map[string]func(){
		"locked by consul lock": func() { // which writes its session, and flags of its own
			pair := o.pair("locked by consul lock", lockName, "")
			pair.Session, pair.Flags = session, 0x2ddccbc058a50c18
			if ok, _, err := o.store.client.KV().Acquire(pair, nil); err != nil || !ok {
				t.Fatalf("acquire: %v, %v", ok, err)
			}
		},
		"semaphore":       func() { o.put(t, "semaphore", lockName, `{"Limit":2,"Holders":{}}`) },
		"text":            func() { o.put(t, "text", lockName, "here be dragons") },
		"another record":  func() { o.put(t, "another record", recordName, `{"job":"other"}`) },
		"a broken record": func() { o.put(t, "a broken record", recordName, `{"job":`) },
	} {
		write()
		_, err := d.Acquire(t.Context(), claim(job, "a", time.Minute))
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Error(), d.store.cfg.dir(job)) || !strings.Contains(p.Hint, "prefix") {
			t.Errorf("%s: %v", job, err)
		}
		if _, err := d.Inspect(t.Context(), job); !backends.IsPermanent(err) {
			t.Errorf("%s: Inspect: %v", job, err)
		}
		if err := d.Abandon(t.Context(), claim(job, "a", time.Minute)); !backends.IsPermanent(err) {
			t.Errorf("%s: Abandon: %v", job, err)
		}
	}
}

// TestNoSessionsLeft: who was not granted leaves no session behind, also where somebody else was quicker.
func TestNoSessionsLeft(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o, m := operate(t, s.URL()), between(t, s)
	d, other := open(t, m.url()), open(t, s.URL())
	m.strike(func(r *http.Response) bool {
		if what(r.Request) == "session/create" {
			steps.Acquire(other, claim("job", "quicker", time.Minute))
		}
		return true
	})
	steps.Refused(d, claim("job", "a", time.Minute), backends.Held)
	servers.Eventually(t, "there is one session", func() bool { return o.sessions(t) == 1 })
}
