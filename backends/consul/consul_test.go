package consul

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

const (
	management = "9f0a4b0e-6c1b-4d8e-8f63-0d5a5a4d1c11"
	shortTTL   = 2 * time.Second
	outlasting = 10 * time.Second            // what a machine that stands still for five seconds does not end
	shortest   = `session_ttl_min = "500ms"` // 10 s otherwise
)

// driver is one host's client, and what is below it.
type driver struct {
	*backends.Engine
	store *store
}

func open(t testing.TB, url string) *driver {
	t.Helper()
	return suite.Open(t, func(url string) (*driver, error) {
		s, err := newStore(url)
		if err != nil {
			return nil, err
		}
		return &driver{backends.NewEngine(s), s}, nil
	}, url)
}

func server(t testing.TB) *servers.ConsulServer {
	t.Helper()
	return servers.Consul(t, servers.ConsulOptions{Config: shortest})
}

// operator is somebody with the rights to do everything.
type operator struct{ *driver }

func operate(t testing.TB, url string) operator {
	t.Helper()
	return operator{open(t, strings.Replace(url, "://", "://:"+management+"@", 1))}
}

func (o operator) key(job, name string) string { return o.store.cfg.dir(job) + name }

func (o operator) get(t testing.TB, job, name string) *api.KVPair {
	t.Helper()
	pair, _, err := o.store.client.KV().Get(o.key(job, name), query(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func (o operator) pair(job, name, value string) *api.KVPair {
	return &api.KVPair{Key: o.key(job, name), Value: []byte(value)}
}

func (o operator) put(t testing.TB, job, name, value string) {
	t.Helper()
	if _, err := o.store.client.KV().Put(o.pair(job, name, value), nil); err != nil {
		t.Fatal(err)
	}
}

func (o operator) remove(t testing.TB, job, name string) {
	t.Helper()
	if _, err := o.store.client.KV().Delete(o.key(job, name), nil); err != nil {
		t.Fatal(err)
	}
}

// session returns what holds the lock of a job.
func (o operator) session(t testing.TB, job string) string {
	t.Helper()
	pair := o.get(t, job, lockName)
	if pair == nil || pair.Session == "" {
		t.Fatalf("nobody holds the lock of %s", job)
	}
	return pair.Session
}

func (o operator) destroySession(t testing.TB, session string) {
	t.Helper()
	if _, err := o.store.client.Session().Destroy(session, nil); err != nil {
		t.Fatal(err)
	}
}

// release frees the lock of a job and leaves its session alone.
func (o operator) release(t testing.TB, job string) {
	t.Helper()
	if ok, _, err := o.store.client.KV().Release(o.get(t, job, lockName), nil); err != nil || !ok {
		t.Fatalf("release: %v, %v", ok, err)
	}
}

// sessions returns how many there are.
func (o operator) sessions(t testing.TB) int {
	t.Helper()
	all, _, err := o.store.client.Session().List(query(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func (o operator) change(t testing.TB, job string, change func(r *backends.Record)) {
	t.Helper()
	for done := false; !done; {
		pair := o.get(t, job, recordName)
		var r backends.Record
		if err := json.Unmarshal(pair.Value, &r); err != nil {
			t.Fatal(err)
		}
		change(&r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		pair.Value = text
		if done, _, err = o.store.client.KV().CAS(pair, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// traceless is why a store that was emptied does not wait.
const traceless = "with lock and record gone nothing tells of a run"

// harness is the suite's view of a store. o needs the prefix of the URL.
func harness(o operator, url string) suite.Harness {
	return suite.Harness{
		Open:         suite.Opener(Open, url),
		TTL:          shortTTL,
		DeleteLease:  func(t testing.TB, job string) { t.Helper(); o.remove(t, job, lockName) },
		DeleteRecord: func(t testing.TB, job string) { t.Helper(); o.remove(t, job, recordName) },
		Change:       o.change,
		Lacks:        map[string]string{"Empty": traceless, "RestartEmpty": traceless},
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := server(t)
	h := harness(operate(t, s.URL()), s.URL())
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	h.Stall = servers.Stall(s)
	suite.Run(t, h)
}

// TestSuiteCluster: three servers, and the deaths of holders by the end of their sessions, which is what it looks
// like when the node of an agent leaves.
func TestSuiteCluster(t *testing.T) {
	t.Parallel()
	// A leader that its machine keeps from working for half a second gives up else.
	o := servers.ConsulOptions{Config: shortest + "\nperformance { raft_multiplier = 4 }"}
	set := servers.ConsulClusterOf(t, o, o, o)
	op := operate(t, set.URL())
	h := harness(op, set.URL())
	h.Expire = func(t testing.TB, g backends.Grant) {
		t.Helper()
		if pair := op.get(t, g.Claim.Job, lockName); pair != nil && pair.Session != "" {
			op.destroySession(t, pair.Session)
		}
	}
	h.Restart = func(t testing.TB) { t.Helper(); set.Restart(t, true) }
	h.Stall = servers.Stall(set.Members...)
	h.Again = true
	suite.Run(t, h)
}

// policy is the policy of policy.hcl, which the documentation shows.
func policy(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("policy.hcl")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newToken makes a token with a policy.
func newToken(t testing.TB, o operator, name, rules string) string {
	t.Helper()
	p, _, err := o.store.client.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := o.store.client.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: p.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

// TestSuiteTLSAndACL: the ready-made policy is all that leaderrun needs, also where listing keys is a right of its
// own.
func TestSuiteTLSAndACL(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	s := servers.Consul(t, servers.ConsulOptions{
		Token: management, TLS: certs, ClientCert: true,
		Config: shortest + "\nacl = { enable_key_list_policy = true }",
	})
	options := "?ca=" + certs.CA + "&cert=" + certs.ClientCert + "&key=" + certs.ClientKey
	o := operate(t, s.URL()+options)
	token := newToken(t, o, "leaderrun", policy(t))
	h := harness(o, "consuls://:"+token+"@"+s.Addr()+options)
	h.Expire = func(t testing.TB, g backends.Grant) {
		t.Helper()
		o.destroySession(t, o.session(t, g.Claim.Job))
	}
	h.Lacks["Restart"], h.Lacks["Stall"] = "TestSuite has it", "TestSuite has it"
	h.Again = true
	suite.Run(t, h)
}

func claim(job, holder string, ttl time.Duration) backends.Claim {
	return backends.Claim{Job: job, Holder: backends.Holder{ID: holder, Host: "host", PID: 1, User: "u"}, TTL: ttl}
}

// within returns a context for one request that may stay without an answer.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
