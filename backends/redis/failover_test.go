package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestSuiteSentinel(t *testing.T) {
	t.Parallel()
	set := servers.Sentinel(t, 1)
	trust(t, set.Servers[0])
	h := harness(set.Servers[0], set.URL())
	h.Stall, h.Lacks["Stall"] = nil, "the Sentinels would promote the replica"
	h.Again = true
	suite.Run(t, h)
}

func TestSuiteCluster(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, 0)
	h := harness(nodes[0], clusterURL(nodes)+"?replicas=0&longest-ttl=6s")
	h.Settle, h.Stall = 7*time.Second, nil
	h.Lacks["Stall"] = "TestSuite has it: here the others would take the node that is silent for a dead one"
	h.DeleteLease = func(t testing.TB, job string) { t.Helper(); lease, _, _ := keys(job); onMaster(t, nodes, "del", lease) }
	h.DeleteRecord = func(t testing.TB, job string) {
		t.Helper()
		_, record, _ := keys(job)
		onMaster(t, nodes, "del", record)
	}
	h.Change, h.Lacks["Change"] = nil, "TestSuite has it: here the key is on another node than the harness's"
	h.Again = true
	suite.Run(t, h)
}

func clusterURL(nodes []*servers.RedisServer) string {
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, n.Addr())
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

// onMaster runs a command on the node that has its key.
func onMaster(t testing.TB, nodes []*servers.RedisServer, words ...any) {
	t.Helper()
	var last error
	for _, n := range nodes {
		if _, last = n.Try(words...); last == nil {
			return
		}
	}
	t.Fatal(last)
}

// overlapping watches a job that changes hands: every holder's life is over when the next is granted.
type overlapping struct {
	token   int64
	renewed time.Time // when the last renewal that counted was sent
	ttl     time.Duration
}

func (o *overlapping) next(t testing.TB, g backends.Grant, received time.Time) {
	t.Helper()
	if g.Token <= o.token {
		t.Errorf("token %d after %d", g.Token, o.token)
	}
	if alive := o.renewed.Add(o.ttl - 20*time.Millisecond); received.Before(alive) {
		t.Errorf("granted %v before the life of the last holder was over", alive.Sub(received))
	}
	*o = overlapping{token: g.Token, renewed: time.Now(), ttl: g.TTL}
}

// hold renews until a renewal counts.
func (o *overlapping) hold(t testing.TB, d *backends.Engine, g backends.Grant) {
	t.Helper()
	for end := time.Now().Add(suite.Patience); ; time.Sleep(10 * time.Millisecond) {
		sent := time.Now()
		_, err := d.Renew(within(t, time.Second), g)
		if err == nil {
			o.renewed = sent
			return
		}
		if errors.Is(err, backends.ErrLost) || time.Now().After(end) {
			t.Logf("renewal: %v", err)
			return
		}
	}
}

// TestFailover: real Sentinels promote a replica, asked to and because the master died.
func TestFailover(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	set := servers.Sentinel(t, 1)
	trust(t, set.Servers[0])
	url := set.URL() + "?longest-ttl=3s"
	a, b := open(t, url), open(t, url)
	const ttl = 2 * time.Second
	var life overlapping
	for round := range 3 {
		g, verdicts := granted(t, a, claim("job", ttl))
		life.next(t, g, time.Now())
		t.Logf("round %d: granted after %v", round, verdicts)
		life.hold(t, a, g)
		master := set.Master(t)
		killed := round == 1
		if killed {
			master.Kill()
		} else {
			set.FailOver(t, round%3, master)
		}
		promoted := set.Changed(t, master)
		if killed {
			if g, err := b.Acquire(within(t, time.Second), claim("alone", ttl)); err == nil {
				t.Errorf("a promoted server without a replica grants: %+v", g)
			}
			master.Restart(t, true)
		}
		g, verdicts = granted(t, b, claim("job", ttl))
		life.next(t, g, time.Now())
		t.Logf("round %d: granted by %s after %v", round, promoted.Addr(), verdicts)
		if _, err := a.Renew(within(t, suite.Patience), backends.Grant{Claim: claim("job", ttl), Token: g.Token, TTL: ttl}); err == nil {
			t.Error("a stranger renews")
		}
		if err := b.Finish(within(t, suite.Patience), g, backends.Outcome{State: backends.Done}); err != nil {
			t.Logf("finish: %v", err)
		}
		life.renewed = time.Time{} // released
		set.InSync(t, 1)
	}
}

// replicated is a master with one replica, both in step.
func replicated(t *testing.T) (master, replica *servers.RedisServer) {
	t.Helper()
	master = servers.Redis(t, servers.RedisOptions{})
	replica = servers.Redis(t, servers.RedisOptions{ReplicaOf: master})
	(&servers.SentinelSet{Servers: []*servers.RedisServer{master}}).InSync(t, 1)
	trust(t, master)
	return master, replica
}

// notAcknowledged makes a step until the server says in time how many replicas have it: too few.
func notAcknowledged(t *testing.T, name string, step func(context.Context) error) {
	t.Helper()
	for limit := 250 * time.Millisecond; limit < suite.Patience; limit *= 2 {
		err := step(within(t, limit))
		_, refusal := errors.AsType[*backends.Refusal](err)
		if err == nil || refusal || backends.IsPermanent(err) || errors.Is(err, backends.ErrLost) {
			t.Errorf("%s without a replica: %v, want an unknown outcome", name, err)
			return
		}
		if strings.Contains(err.Error(), "0 of 1 replicas") {
			return
		}
	}
	t.Errorf("%s without a replica: no answer", name)
}

// TestReplicasMustAcknowledge: a step that the replicas do not have counts as nothing, however often it is repeated.
func TestReplicasMustAcknowledge(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	master, replica := replicated(t)
	p := servers.NewProxy(t, master.Addr())
	d := open(t, "redis://"+p.Addr())
	g, _ := granted(t, d, claim("job", long))
	ended, _ := granted(t, d, claim("ended", long))
	broken, _ := granted(t, d, claim("broken", long))
	if _, err := d.Renew(within(t, suite.Patience), g); err != nil { // the server learns the script
		t.Fatal(err)
	}
	trips := p.Trips()
	if _, err := d.Renew(within(t, suite.Patience), g); err != nil {
		t.Fatal(err)
	}
	if n := p.Trips() - trips; n != 1 {
		t.Errorf("%d round trips of a renewal with WAIT, want 1", n)
	}

	replica.Stop(t)
	other, given, dead := claim("other", long), claim("given up", long), suite.NewOrder(backends.ForceRelease, broken)
	steps := map[string]func(context.Context) error{
		"claim":       func(ctx context.Context) error { _, err := d.Acquire(ctx, other); return err },
		"claim again": func(ctx context.Context) error { _, err := d.Acquire(ctx, g.Claim); return err },
		"renew":       func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err },
		"abandon":     func(ctx context.Context) error { return d.Abandon(ctx, given) },
		"finish":      func(ctx context.Context) error { return d.Finish(ctx, ended, backends.Outcome{State: backends.Done}) },
		"order":       func(ctx context.Context) error { return d.Order(ctx, dead) },
	}
	for name, step := range steps {
		for i := range 3 { // the second time there may be nothing left to change
			notAcknowledged(t, fmt.Sprint(name, " ", i), step)
		}
	}
	// A client that has never seen replicas learns of them from the mark.
	fresh := open(t, "redis://"+master.Addr())
	notAcknowledged(t, "claim of a new client", func(ctx context.Context) error { _, err := fresh.Acquire(ctx, other); return err })
	lowered := open(t, "redis://"+master.Addr()+"?replicas=0")
	if _, err := lowered.Acquire(within(t, suite.Patience), claim("lowered", long)); err != nil {
		t.Errorf("with ?replicas=0: %v", err)
	}
	status, err := lowered.Inspect(within(t, suite.Patience), "lowered")
	if err != nil || len(status.Notes) != 1 || !strings.Contains(status.Notes[0], "?replicas=0") {
		t.Errorf("notes with ?replicas=0: %q, %v", status.Notes, err)
	}

	replica.Cont(t)
	again, _ := granted(t, d, other)
	if status, err := d.Inspect(within(t, suite.Patience), "other"); err != nil || status.Record.Token != again.Token || len(status.Notes) != 0 {
		t.Errorf("the claim that was repeated: %+v, %v", status, err)
	}
	finish(t, d, ended)
}

// TestAReplicaIsNotBelieved: what it shows may be old, and one that takes writes keeps them to itself.
func TestAReplicaIsNotBelieved(t *testing.T) {
	t.Parallel()
	master := servers.Redis(t, servers.RedisOptions{})
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: master})
	replica.Do(t, "config", "set", "replica-read-only", "no")
	if status, err := open(t, "redis://"+replica.Addr()).Inspect(within(t, suite.Patience), "job"); err == nil || errors.Is(err, backends.ErrUnknownJob) {
		t.Errorf("it is asked, and says %+v, %v", status, err)
	}
}

// TestReplicaThatCameAfterTheRead: the first write after it came must have it already.
func TestReplicaThatCameAfterTheRead(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	master := servers.Redis(t, servers.RedisOptions{})
	d := open(t, "redis://"+master.Addr())
	g, _ := granted(t, d, claim("job", long))
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: master})
	servers.Eventually(t, "the replica is online", func() bool {
		return strings.Contains(master.Info(t, "replication", "slave0"), "state=online")
	})
	replica.Stop(t)
	notAcknowledged(t, "renewal", func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err })
}

// TestReplicaAttachedDuringARun: a server that is being replaced gets a replica while a run goes on, and nobody
// claims before that is promoted. The old master must not go on renewing by itself.
func TestReplicaAttachedDuringARun(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	master := servers.Redis(t, servers.RedisOptions{})
	trust(t, master)
	d := open(t, "redis://"+master.Addr())
	g, _ := granted(t, d, claim("job", long))
	stop := keepAlive(t, d, g)
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: master})
	servers.Eventually(t, "the replica is online", func() bool {
		return strings.Contains(master.Info(t, "replication", "slave0"), "state=online")
	})
	if _, err := d.Renew(within(t, suite.Patience), g); err != nil {
		t.Fatalf("renewal with the replica: %v", err)
	}
	stop()
	if got := master.Do(t, "hget", "leaderrun:mark", "replicas"); got != "1" {
		t.Errorf("the mark counts %v replicas, want 1", got)
	}
	replica.Do(t, "replicaof", "no", "one")
	servers.Eventually(t, "the replica is gone", func() bool {
		return master.Info(t, "replication", "connected_slaves") == "0"
	})
	notAcknowledged(t, "renewal on the old master", func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err })
}

// keepAlive renews until the returned function is called.
func keepAlive(t *testing.T, d *backends.Engine, g backends.Grant) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(200 * time.Millisecond):
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, _ = d.Renew(ctx, g)
				cancel()
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); <-done })
	t.Cleanup(stop)
	return stop
}

// TestClusterFailover: a master of a cluster dies with every lease on it.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, 1)
	url := clusterURL(nodes) + "?longest-ttl=3s"
	a, b := open(t, url), open(t, url)
	const ttl = 2 * time.Second
	var life overlapping
	g, verdicts := granted(t, a, claim("job", ttl))
	t.Logf("granted after %v", verdicts)
	life.next(t, g, time.Now())
	life.hold(t, a, g)
	_, record, _ := keys("job")
	var master *servers.RedisServer
	for _, n := range nodes {
		if _, err := n.Try("exists", record); err == nil && n.Info(t, "replication", "role") == "master" {
			master = n
		}
	}
	master.Kill()
	servers.Eventually(t, "another master", func() bool {
		for _, n := range nodes {
			if n != master {
				if _, err := n.Try("exists", record); err == nil && n.Info(t, "replication", "role") == "master" {
					return true
				}
			}
		}
		return false
	})
	_, err := b.Acquire(within(t, time.Second), claim("job", ttl))
	if err == nil {
		t.Error("a promoted server without a replica grants")
	}
	early, _ := errors.AsType[*backends.Refusal](err) // the quarantine may be over when the master is back
	master.Restart(t, true)
	next, verdicts := granted(t, b, claim("job", ttl))
	if early != nil {
		verdicts = append(verdicts, early.Verdict)
	}
	t.Logf("granted after %v", verdicts)
	life.next(t, next, time.Now())
	if !slices.Contains(verdicts, backends.Quarantined) {
		t.Errorf("no quarantine on the promoted node: %v", verdicts)
	}
	if jobs, err := b.Jobs(within(t, suite.Patience)); err != nil || !slices.Equal(jobs, []string{"job"}) {
		t.Errorf("jobs %q, %v", jobs, err)
	}
	if _, err := open(t, "redis://"+master.Addr()).Acquire(t.Context(), claim("job", ttl)); !backends.IsPermanent(err) {
		t.Errorf("redis:// for a node of a cluster: %v", err)
	}
}

// TestRepeatedStepsWrite: a step that is asked again changes something, so that WAIT has something to wait
// for. (Redis 7.0 waits for everything before it, later versions for what the connection itself wrote.)
func TestRepeatedStepsWrite(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	d := open(t, "redis://"+s.Addr())
	g, _ := granted(t, d, claim("job", long))
	given, forget := claim("given up", long), suite.NewOrder(backends.ForgetJob, g)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"claim", func() error { _, err := d.Acquire(within(t, suite.Patience), g.Claim); return err }},
		{"finish", func() error {
			return d.Finish(within(t, suite.Patience), g, backends.Outcome{State: backends.Done})
		}},
		{"abandon", func() error { return d.Abandon(within(t, suite.Patience), given) }},
		{"order", func() error { return d.Order(within(t, suite.Patience), forget) }},
	} {
		for i := range 3 {
			before := s.Info(t, "persistence", "rdb_changes_since_last_save")
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if s.Info(t, "persistence", "rdb_changes_since_last_save") == before {
				t.Errorf("%s %d writes nothing", step.name, i)
			}
		}
	}
}

// A replica that was cut off and came back has two connections at its master until the old one times out. It counts once:
// more than there are could never acknowledge again, and every claim would be refused for good. Two replicas that are seen
// at one address are two all the same.
func TestReplicaThatCameBackCountsOnce(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	online := func(what, pattern string, want int) {
		t.Helper()
		servers.Eventually(t, what, func() bool {
			text, _ := s.Do(t, "info", "replication").(string)
			return len(regexp.MustCompile(pattern).FindAllString(text, -1)) == want
		})
	}
	fallSilent := copies(t, s.Addr(), "7001")
	online("the replica is there", `state=online`, 1)
	fallSilent()
	copies(t, s.Addr(), "7001")
	for range 2 {
		copies(t, s.Addr(), "7002")
	}
	online("four connections of replicas", `state=online`, 4)
	online("the first is silent", `lag=([2-9]|\d\d)`, 1)
	client, d := openStore(t, "redis://"+s.Addr()+"?replicas=0") // they acknowledge nothing
	g, _ := granted(t, d, claim("job", long))
	finish(t, d, g)
	if n := client.seen.Load(); n != 3 {
		t.Errorf("the mark says %d replicas, want 3", n)
	}
}

// copies connects as a replica does that listens on a port, until the test ends.
func copies(t *testing.T, addr, port string) (fallSilent func()) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	answers := bufio.NewReader(conn)
	for _, line := range []string{"REPLCONF listening-port " + port, "REPLCONF capa eof capa psync2", "PSYNC ? -1"} {
		if _, err := fmt.Fprintf(conn, "%s\r\n", line); err != nil {
			t.Fatal(err)
		}
		if _, err := answers.ReadString('\n'); err != nil { // PSYNC is refused while an answer is on its way
			t.Fatal(err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, answers) }()
	var silent atomic.Bool
	go func() { // until it has acknowledged something, it does not count as online
		for !silent.Load() {
			if _, err := fmt.Fprint(conn, "REPLCONF ACK 0\r\n"); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return func() { silent.Store(true) }
}
