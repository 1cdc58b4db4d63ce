package redis

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// scene is a job of one server, and a request that has read it.
type scene struct {
	*testing.T
	server              *servers.RedisServer
	store               *store
	driver              *backends.Engine
	lease, record, mark string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, server: servers.Redis(t, servers.RedisOptions{})}
	trust(t, s.server)
	s.store, s.driver = openStore(t, "redis://"+s.server.Addr())
	s.lease, s.record, s.mark = keys("job")
	return s
}

// kept is all that the server holds of the job.
func (s *scene) kept() string {
	fields := func(key string) hash { return reply{[]any{s.server.Do(s, "hgetall", key)}}.hash(0) } // in any order
	return fmt.Sprint(s.server.Do(s, "get", s.lease), fields(s.record), fields(s.mark))
}

// read begins a request, and returns it with what it read.
func (s *scene) read(q backends.Request) (backends.Tx, *state) {
	s.Helper()
	q.Job = "job"
	tx := s.store.Begin(s.Context(), q)
	now, err := tx.Read(within(s, suite.Patience))
	if err != nil {
		s.Fatal(err)
	}
	return tx, of(now)
}

// claims decides a claim on what was read.
func (s *scene) claims(c backends.Claim) (backends.Tx, *state, backends.Write) {
	s.Helper()
	tx, now := s.read(backends.Request{Op: backends.ToClaim, Holder: c.Holder, TTL: c.TTL})
	d := backends.Decide(now.View(backends.Request{}), c)
	if d.Grant == nil {
		s.Fatal(d.Refusal)
	}
	return tx, now, backends.Write{Record: d.Record, Lease: &backends.Label{Holder: c.Holder.ID, Token: d.Grant.Token}, TTL: c.TTL, Beat: true}
}

// written says whether a swap wrote. If it did not, there must be all that was there before.
func (s *scene) written(tx backends.Tx, now *state, w backends.Write) bool {
	s.Helper()
	before := s.kept()
	_, done, err := tx.Swap(within(s, suite.Patience), now, w)
	if err != nil && !backends.IsPermanent(err) {
		s.Fatal(err)
	}
	if !done && s.kept() != before {
		s.Errorf("it says that it wrote nothing:\n%s\n%s", before, s.kept())
	}
	return done
}

// TestGrantsAreWrittenOnWhatWasRead: hazard: A reads a free job, B is granted, and something makes the job look free again: A
// is granted beside B. Whatever a grant was decided on is compared when it is written.
func TestGrantsAreWrittenOnWhatWasRead(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ran := func() { // the job has a record, and is free
		g, _ := granted(t, s.driver, claim("job", long))
		finish(t, s.driver, g)
	}
	for _, c := range []struct {
		name   string
		first  func()                              // before the read; nil: nothing
		change func(now *state, w *backends.Write) // between read and write
	}{
		{name: "another runs the job", change: func(*state, *backends.Write) { granted(t, s.driver, claim("job", long)) }},
		{name: "another ran the job", first: ran, change: func(*state, *backends.Write) { ran() }},
		{name: "it was taken back", change: func(_ *state, w *backends.Write) {
			gone := claim("job", long)
			gone.Holder.ID = w.Lease.Holder
			if err := s.driver.Abandon(within(t, suite.Patience), gone); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "another was granted, and all was flushed", change: func(*state, *backends.Write) {
			granted(t, s.driver, claim("job", long))
			s.server.Do(t, "flushall")
		}},
		{name: "another was granted, all was flushed, and another mark is there", change: func(now *state, _ *backends.Write) {
			granted(t, s.driver, claim("job", long))
			s.server.Do(t, "flushall")
			s.server.Do(t, "hset", s.mark, "identity", now.identity, "epoch", "another")
		}},
		{name: "there was no mark's epoch", change: func(now *state, _ *backends.Write) {
			s.server.Do(t, "hdel", s.mark, "epoch")
			now.epoch = ""
		}},
		{name: "the mark is another server's", change: func(*state, *backends.Write) { s.server.Do(t, "hset", s.mark, "identity", "a:b") }},
		{name: "a quarantine began", change: func(*state, *backends.Write) {
			s.server.Do(t, "hset", s.mark, "until", time.Now().Add(time.Minute).UnixMilli())
		}},
		{name: "something was evicted", change: func(*state, *backends.Write) { s.server.Do(t, "hset", s.mark, "evicted", 7) }},
		{name: "another server", first: ran, change: func(now *state, _ *backends.Write) { now.identity = "a:b" }},
		{name: "read later than now", first: ran, change: func(now *state, _ *backends.Write) { now.now += time.Minute.Milliseconds() }},
		{name: "read long ago", first: ran, change: func(now *state, _ *backends.Write) { now.now -= oldestRead.Milliseconds() + 1 }},
		{name: "what another program has put there", first: ran, change: func(*state, *backends.Write) { s.server.Do(t, "set", s.lease, "") }},
		{name: "a lease that nobody knew of", first: ran, change: func(now *state, _ *backends.Write) {
			s.server.Do(t, "set", s.lease, "b|7")
			now.lease = &backends.Label{Holder: "b", Token: 7}
		}},
		{name: "a token that was given already", first: ran, change: func(now *state, w *backends.Write) {
			w.Record.Token, w.Lease.Token = now.record.Token, now.record.Token
		}},
	} {
		s.server.Do(t, "flushall")
		trust(t, s.server)
		if c.first != nil {
			c.first()
		}
		tx, now, w := s.claims(claim("job", long))
		c.change(now, &w)
		if s.written(tx, now, w) {
			t.Errorf("%s: it is granted", c.name)
		}
	}

	// What does not matter does not stop it.
	for name, change := range map[string]func(){
		"nothing":                            func() {},
		"something is evicted, not this job": func() { s.server.Do(t, "hset", s.mark, "evicted", 7) },
		"replicas were seen":                 func() { s.server.Do(t, "hset", s.mark, "longest", 60_000) },
	} {
		s.server.Do(t, "flushall")
		trust(t, s.server)
		ran()
		tx, now, w := s.claims(claim("job", long))
		change()
		if !s.written(tx, now, w) {
			t.Errorf("%s: it is not granted", name)
		}
	}
}

// TestEndsAreWrittenOnWhatWasRead: an end takes no lease that it has not seen, and no token goes back with it.
func TestEndsAreWrittenOnWhatWasRead(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for name, change := range map[string]func(g backends.Grant, w *backends.Write){
		"another's lease, made by hand": func(backends.Grant, *backends.Write) { s.server.Do(t, "set", s.lease, "b|7") },
		"the lease is gone":             func(backends.Grant, *backends.Write) { s.server.Do(t, "del", s.lease) },
		"another's claim was taken back": func(backends.Grant, *backends.Write) {
			if err := s.driver.Abandon(within(t, suite.Patience), claim("job", long)); err != nil {
				t.Fatal(err)
			}
		},
		"the record is an earlier one": func(backends.Grant, *backends.Write) { s.server.Do(t, "hset", s.record, "version", "old") },
		"a lower token":                func(_ backends.Grant, w *backends.Write) { w.Record.Token-- },
		"a stop was ordered": func(g backends.Grant, _ *backends.Write) {
			suite.On(t).Order(s.driver, suite.NewOrder(backends.Stop, g))
		},
	} {
		s.server.Do(t, "flushall")
		trust(t, s.server)
		g, _ := granted(t, s.driver, claim("job", long))
		tx, now := s.read(backends.Request{Op: backends.ToFinish, Holder: g.Claim.Holder})
		e := backends.DecideFinish(now.View(backends.Request{}), g, backends.Outcome{State: backends.Done})
		w := backends.Write{Record: e.Record, Release: e.Release}
		change(g, &w)
		if s.written(tx, now, w) {
			t.Errorf("%s: it is written", name)
		}
	}
}

// TestAGrantEndsByTheServersClock: what the record says of the lease's end counts from when it is written.
func TestAGrantEndsByTheServersClock(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	tx, now, w := s.claims(claim("job", long))
	const late = 5000
	now.now -= late // it was read so long ago
	w.Record.Until -= late
	if !s.written(tx, now, w) {
		t.Fatal("it is not granted")
	}
	text, _ := s.server.Do(t, "hget", s.record, "until").(string)
	until, _ := strconv.ParseInt(text, 10, 64)
	if until < now.now+late+long.Milliseconds() {
		t.Errorf("until %d, read at %d", until, now.now+late)
	}
}

// TestNotesLeaveARenewalAlone: hazard: somebody who writes a note beside a lease takes the end of the lease and the beat back
// that a renewal has written meanwhile: the next one believes too early that the holder is dead.
func TestNotesLeaveARenewalAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	g, _ := granted(t, s.driver, claim("job", long))
	c := claim("job", long)
	c.Tick = time.Now().Unix() - 10
	tx, now := s.read(backends.Request{Op: backends.ToClaim, Holder: c.Holder, TTL: c.TTL})
	d := backends.Decide(now.View(backends.Request{}), c)
	time.Sleep(2 * time.Millisecond) // the renewal's end is another one
	suite.On(t).Renew(s.driver, g)
	renewed, err := s.driver.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if !s.written(tx, now, backends.Write{Record: d.Record}) {
		t.Fatal("a note minds a renewal")
	}
	after, err := s.driver.Inspect(t.Context(), "job")
	if r := after.Record; err != nil || r.Beat != renewed.Record.Beat || r.Until != renewed.Record.Until || r.Until == now.record.Until || r.Passed != c.Tick {
		t.Errorf("after the note: %+v, before %+v: %v", r, renewed.Record, err)
	}

	// An order minds it.
	tx, now = s.read(backends.Request{Op: backends.ToOrder})
	o := backends.DecideOrder(now.View(backends.Request{}), suite.NewOrder(backends.Revoke, g))
	suite.On(t).Renew(s.driver, g)
	if s.written(tx, now, backends.Write{Record: o.Record, Release: o.Release, Beat: true, CompareBeat: true}) {
		t.Error("an order takes the lease of a holder that has renewed it since")
	}
}

// TestRestoredByARenewal: a record that was lost is written by the next renewal, and what it knows of the token is never less
// than the lease.
func TestRestoredByARenewal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for name, lose := range map[string]func(){
		"deleted":  func() { s.server.Do(t, "del", s.record) },
		"set back": func() { s.server.Do(t, "hset", s.record, "token", 7, "runs", "[]", "version", "old") },
	} {
		c := claim("job", long)
		c.Tick = time.Now().Unix() - 10
		g, _ := granted(t, s.driver, c)
		lose()
		suite.On(t).Renew(s.driver, g)
		status, err := s.driver.Inspect(t.Context(), "job")
		if r := status.Record; err != nil || r.Token != g.Token || r.Tick.Tick != c.Tick || r.Holder.ID != c.Holder.ID || r.TTL != long.Milliseconds() || r.Until == 0 || len(r.Runs) != 1 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		s.server.Do(t, "del", s.lease, s.record)
	}
}

// TestTheMarkIsWrittenOnce: after a restart many claims find a mark that is not this server's. One writes it, for all jobs, and
// what another host knew of replicas and TTLs stays. Where it was deleted meanwhile, the next one is not taken for it.
func TestTheMarkIsWrittenOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.server.Do(t, "hset", s.mark, "identity", "another:server", "epoch", "old", "replicas", 0, "longest", 1000)
	look := func() *state {
		now, err := s.store.look(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	first, second := look(), look()
	if first.isMarked() {
		t.Fatal("the mark of another server is taken for this one's")
	}
	s.server.Do(t, "hset", s.mark, "longest", 60_000)
	one, err := s.store.putMark(t.Context(), "job", first)
	if err != nil || !one.isMarked() || one.epoch == "old" || one.mark.Longest != 60_000 || one.quarantine <= 0 {
		t.Fatalf("%+v, %v", one, err)
	}
	other, err := s.store.putMark(t.Context(), "job", second)
	if err != nil || other.epoch != one.epoch || other.mark.Until != one.mark.Until {
		t.Errorf("%+v after %+v, %v", other, one, err)
	}
	s.server.Do(t, "flushall")
	if again, err := s.store.putMark(t.Context(), "job", look()); err != nil || !again.isMarked() || again.epoch == one.epoch {
		t.Errorf("marked anew: %+v after %+v, %v", again, one, err)
	}
}

// Hazard: a server that evicts with each write is never marked for good: a claim marks it again and again, until its context
// ends. It is told that nobody is granted, and for how long.
func TestAServerThatEvictsAllTheTime(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	addr, _ := servers.RedisByHand(t, func(w []string, _ int) string {
		if w[0] != "evalsha" {
			return "-ERR unknown command\r\n"
		}
		evicted := asked.Add(1)
		return fmt.Sprintf("*14\r\n+%s\r\n+state\r\n+0\r\n+1790000000000\r\n+\r\n+-2\r\n*0\r\n"+
			"*8\r\n+identity\r\n+a:b\r\n+epoch\r\n+e\r\n+evicted\r\n+%d\r\n+until\r\n+0\r\n+a:b\r\n+7.0.15\r\n+9\r\n+%d\r\n+-1\r\n+\r\n",
			w[6], evicted-1, evicted)
	})
	r := suite.On(t).Refused(open(t, "redis://"+addr), claim("job", long), backends.Quarantined)
	if n := asked.Load(); n != 2 || r.Wait != backendurl.DefaultLongestTTL {
		t.Errorf("asked %d times, wait %v", n, r.Wait)
	}
}

// Hazard: who takes a claim back adds to the list of a record that a newer leaderrun has written meanwhile.
func TestANewerRecordIsNotAddedTo(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	g, _ := granted(t, s.driver, claim("job", long))
	finish(t, s.driver, g)
	c := claim("job", long)
	tx, now := s.read(backends.Request{Op: backends.ToAbandon, Holder: c.Holder})
	e := backends.DecideAbandon(now.View(backends.Request{}), c)
	e.Record.Form = backends.RecordForm
	s.server.Do(t, "hset", s.record, "form", backends.RecordForm+1, "refused", `[{"id":"x"}]`, "version", "newer")
	if s.written(tx, now, backends.Write{Record: e.Record}) {
		t.Errorf("the list is %v", s.server.Do(t, "hget", s.record, "refused"))
	}
}
