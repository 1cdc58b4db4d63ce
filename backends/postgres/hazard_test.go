package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// newSteady returns a claim for longer than a test takes.
func newSteady(job string) backends.Claim { return suite.NewClaim(job, 30*time.Second) }

// stubborn is a server without a mark that does not write one, because of a trigger or a rule.
type stubborn struct {
	client
	sql   *statements
	marks int
}

func (s *stubborn) Ask(_ context.Context, batch []wire.Statement, check func(wire.Reply) error) (wire.Reply, error) {
	reply := wire.Reply{Rows: [][]wire.Row{{nil}, nil}}
	if last := batch[len(batch)-1]; last.SQL == s.sql.read {
		null := wire.Value{}
		reply.Rows[1] = []wire.Row{{
			last.Args[0], wire.Text("f"), wire.Text("1:00000001:1"), wire.Text("1000"), wire.Text("f"),
			null, null, null, null, null, null, null, null, null, null, wire.Text("f"),
		}}
	} else if s.marks++; s.marks == 10_000 {
		return reply, errors.New("enough")
	}
	return reply, check(reply)
}

func (*stubborn) Close() error { return nil }

// Hazard: the mark cannot be written, and a claim asks the server again and again as fast as it answers.
func TestAMarkThatCannotBeWrittenIsNotTriedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newStore("postgres://u@localhost/db")
		if err != nil {
			t.Fatal(err)
		}
		server := &stubborn{sql: &s.sql}
		s.client = server
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = backends.NewEngine(s).Acquire(ctx, newSteady("job"))
		if !errors.Is(err, context.DeadlineExceeded) || backends.IsAnswer(err) {
			t.Errorf("%v", err)
		}
		if server.marks < 3 || server.marks > 100 {
			t.Errorf("the mark was tried %d times within a second", server.marks)
		}
	})
}

// TestLateClaim (etcd-io/etcd#11456): a claim that waits on its way grants nothing for longer than its sender believes.
func TestLateClaim(t *testing.T) {
	w := newWorld(t)
	w.Acquire(w.d, func() backends.Claim { c := newSteady("job"); c.TTL = time.Millisecond; return c }())
	time.Sleep(2 * time.Millisecond)
	var read time.Time
	var unlock func()
	intercept(w.d, func(request string) {
		if request == "write" {
			unlock = w.lock("job")
			go func() {
				w.waiting("1")
				time.Sleep(100 * time.Millisecond) // the longer, the later; no assertion hangs on it
				unlock()
			}()
		}
	}, func(request string) error {
		if request == "read" {
			read = time.Now()
		}
		return nil
	})
	c := newSteady("job")
	g := w.Acquire(w.d, c)
	if until := time.UnixMilli(w.operator.state(w, "job").record.Until); until.After(read.Add(g.TTL)) {
		t.Errorf("the lease lasts %v longer than the reply to what was read, and its TTL", until.Sub(read.Add(g.TTL)))
	}
}

// TestLockIsNotWaitedForWithoutACaller: a step whose caller has gone leaves no process of the server behind, also where the
// server is not told that it has.
func TestLockIsNotWaitedForWithoutACaller(t *testing.T) {
	servers.SkipShort(t)
	w := newWorld(t)
	p := servers.NewProxy(t, w.server.Addr())
	d := open(t, w.server.URLAt(p.Addr()))
	g := w.Acquire(d, newSteady("job"))
	unlock := w.lock("job")
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // a busy machine gets as far as the lock
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := d.Renew(ctx, g); done <- err }()
	w.waiting("1")
	p.DropAll(true)
	w.WantUnknown("Renew", <-done)
	w.waiting("0")
}

// TestSilentClient: a server finds out soon that the host of a client is gone, where its kernel would wait for two hours: until
// then a connection is taken that nobody has, and a row may be locked.
func TestSilentClient(t *testing.T) {
	w := newWorld(t)
	w.Acquire(w.d, newSteady("job"))
	port := w.server.Do(t, "SELECT client_port FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'leaderrun' ORDER BY state_change DESC LIMIT 1")
	client, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	const keepalive = "02"
	servers.Eventually(t, "the server looks after a silent client within seconds", func() bool {
		sockets, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(sockets)) {
			f := strings.Fields(line) // sl, local address, remote address, state, queues, timer:when, …
			if len(f) < 6 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", w.server.Port)) || !strings.HasSuffix(f[2], fmt.Sprintf(":%04X", client)) {
				continue
			}
			timer, when, _ := strings.Cut(f[5], ":")
			ticks, err := strconv.ParseInt(when, 16, 64) // of a hundredth of a second
			return err == nil && timer == keepalive && ticks <= 1600
		}
		return false
	})
}

// TestSilentHost (redis/go-redis#2682, and half-open connections): a renewal beside one that stays silent asks another host, or the same
// one by another connection, and does not wait for a share of its time first.
func TestSilentHost(t *testing.T) {
	servers.SkipShort(t)
	w := newWorld(t)
	for name, more := range map[string]string{"two hosts": "," + w.server.Addr(), "one": ""} {
		p := servers.NewProxy(t, w.server.Addr())
		d := open(t, w.server.URLAt(p.Addr()+more))
		g := w.Acquire(d, newSteady(name))
		p.DropReplies(true)
		ctx, cancel := context.WithCancel(t.Context()) // without a deadline there are no shares
		t.Cleanup(cancel)
		silent := make(chan error, 1)
		go func() { _, err := d.Renew(ctx, g); silent <- err }()
		servers.Eventually(t, "a renewal is on its way", func() bool { return p.Dropped() > 0 })
		if more == "" { // the old connection stays silent, a new one does not
			p.DropReplies(false)
		}
		late := time.AfterFunc(suite.Patience, cancel)
		if _, err := d.Renew(ctx, g); err != nil {
			t.Errorf("%s: the renewal beside it: %v", name, err)
		}
		late.Stop()
		cancel()
		w.WantUnknown("the silent renewal", <-silent)
	}
}

// TestHandIsNoticed: whoever changes a row by hand leaves its version as it is, and is noticed all the same.
func TestHandIsNoticed(t *testing.T) {
	servers.SkipShort(t)
	w := newWorld(t)
	for job, sql := range map[string]string{
		"taken":   "UPDATE leaderrun SET holder = 'somebody', token = token + 1 WHERE job = JOB",
		"removed": "UPDATE leaderrun SET holder = NULL WHERE job = JOB",
		"expired": "UPDATE leaderrun SET until = clock_timestamp() WHERE job = JOB",
		"deleted": "DELETE FROM leaderrun WHERE job = JOB",
		"again":   "WITH old AS (DELETE FROM leaderrun WHERE job = JOB RETURNING *) INSERT INTO leaderrun SELECT job || '2', version, record, holder, token, until, beat, updated FROM old",
	} {
		g := w.Acquire(w.d, newSteady(job))
		w.operator.do(t, sql, job)
		_, err := w.d.Renew(t.Context(), g)
		w.WantLost(job, err)
	}
	g := w.Acquire(w.d, newSteady("touched"))
	w.operator.do(t, "UPDATE leaderrun SET updated = now() WHERE job = JOB", "touched")
	w.Renew(w.d, g)
}

// TestEndIsWhenItWas: a run that ends long after it was last renewed is not recorded as one that ended then: a schedule would
// count the time between as one in which the lease was free.
func TestEndIsWhenItWas(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newSteady("job"))
	last := of(backends.CacheOf(g).Last())
	last.server.at = last.server.at.Add(-time.Hour) // when the claim was answered
	w.Finish(w.d, g)
	r := w.operator.state(t, "job").record
	if took := time.Duration(r.Ended-r.Granted) * time.Millisecond; took < time.Hour || r.Runs[0].Ended != r.Ended {
		t.Errorf("a run of an hour has ended after %v", took)
	}
}

// TestClockSetForward: a clock of the server that is stepped forward ends leases early, against which nothing is promised but
// this (docs/guarantees.md): the old run is told at its next step, and its token is lower than that of whoever came meanwhile.
func TestClockSetForward(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	clock := servers.NewClock(t)
	clock.MustMove(t)
	w := worldOf(t, servers.Postgres(t, servers.PostgresOptions{At: servers.At{Env: clock.Environment()}}), "")
	lonely, taken := w.Acquire(w.d, newSteady("lonely")), w.Acquire(w.d, newSteady("taken"))
	w.Renew(w.d, lonely)
	w.Renew(w.d, taken)
	if err := clock.Move(time.Hour); err != nil {
		t.Fatal(err)
	}
	_, err := w.d.Renew(t.Context(), lonely)
	w.WantLost("a renewal of what has run out, and nobody has touched", err)
	next := w.Acquire(w.other, newSteady("taken"))
	_, err = w.d.Renew(t.Context(), taken)
	w.WantLost("a renewal of what somebody else has", err)
	w.WantLost("an end of what somebody else has", w.d.Finish(t.Context(), taken, backends.Outcome{State: backends.Done}))
	w.Renew(w.other, next)

	if err := clock.Move(0); err != nil {
		t.Fatal(err)
	}
	if r := w.Refused(w.d, newSteady("taken"), backends.Held); r.Wait > next.TTL {
		t.Errorf("waits for %v, and the TTL is %v", r.Wait, next.TTL)
	}
	w.Renew(w.other, next)
	w.Finish(w.other, next)
	if last := w.Acquire(w.d, newSteady("taken")); next.Token <= taken.Token || last.Token <= next.Token {
		t.Errorf("tokens %d, %d and %d", taken.Token, next.Token, last.Token)
	}
}

// TestNothingOfASession (pgbouncer/pgbouncer#102, #418, goauthentik/authentik#23876): no lock and no open transaction is left
// between two steps, nor by who makes the table, which a pooler would give to somebody else, or keep from its next user.
func TestNothingOfASession(t *testing.T) {
	w := newWorld(t)
	if err := w.d.store.createTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := w.Acquire(w.d, newSteady("job"))
	w.Renew(w.d, g)
	if n := w.server.Do(t, "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database WHERE datname = current_database() AND locktype = 'advisory'"); n != "0" {
		t.Errorf("%s advisory locks", n)
	}
	if n := w.server.Do(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"); n != "0" {
		t.Errorf("%s open transactions", n)
	}
	if n := w.server.Do(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'leaderrun'"); n != "2" { // the operator's, and ours
		t.Errorf("%s connections", n)
	}
}

// TestStrangeDatabase: what a database may be set to changes nothing: not its encoding, not what a backslash means, not how
// transactions are kept apart.
func TestStrangeDatabase(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.Postgres(t, servers.PostgresOptions{})
	for i, setting := range []string{
		"standard_conforming_strings = off", "default_transaction_isolation = 'serializable'", "DateStyle = 'German, DMY'",
		"IntervalStyle = 'iso_8601'", "TimeZone = 'Asia/Kathmandu'", "extra_float_digits = -15", "synchronous_commit = off",
	} {
		name := fmt.Sprintf("d%d", i)
		encoding := "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
		if i%2 == 1 {
			encoding = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
		}
		s.Do(t, "CREATE DATABASE "+name+" TEMPLATE template0 "+encoding)
		s.Do(t, "ALTER DATABASE "+name+" SET "+setting)
		d := open(t, "postgres://postgres:"+s.Password+"@"+s.Addr()+"/"+name+`?sslmode=disable&longest-ttl=2s&prefix=a%5C%27b`)
		c := newClaim(`日本語 🦊 \' " $1 %s ` + "\x00\n")
		c.Holder.Host = "hôte-ü"
		c.Once = "🦊"
		var g backends.Grant
		servers.Eventually(t, "the new server is trusted", func() bool {
			var err error
			g, err = d.Acquire(t.Context(), c)
			if _, refused := errors.AsType[*backends.Refusal](err); err != nil && !refused {
				t.Fatalf("%s: %v", setting, err)
			}
			return err == nil
		})
		if _, err := d.Renew(t.Context(), g); err != nil {
			t.Errorf("%s: Renew: %v", setting, err)
		}
		status, err := d.Inspect(t.Context(), c.Job)
		if err != nil || status.Record.Job != c.Job || status.Record.Holder != c.Holder || status.Record.Once[0].Key != c.Once || status.Lease == nil {
			t.Errorf("%s: %+v, %v", setting, status, err)
		}
		if err := d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}); err != nil {
			t.Errorf("%s: Finish: %v", setting, err)
		}
	}
}
