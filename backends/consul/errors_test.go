package consul

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	const wrong = "00000000-0000-0000-0000-00000000dead"
	acl := servers.Consul(t, servers.ConsulOptions{Token: management})
	plain := servers.Consul(t, servers.ConsulOptions{})
	certs := servers.NewCertificates(t)
	secure := servers.Consul(t, servers.ConsulOptions{TLS: certs, ClientCert: true})
	away := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	t.Cleanup(away.Close)
	ca := "?ca=" + certs.CA
	o := operate(t, acl.URL())
	steps.Finish(o.driver, steps.Acquire(o.driver, claim("job", "operator", 10*time.Second)))
	reader := newToken(t, o, "reader", `key_prefix "leaderrun/" { policy = "read" } session_prefix "" { policy = "write" }`)
	elsewhere := newToken(t, o, "elsewhere", `key_prefix "x/" { policy = "write" } session_prefix "" { policy = "write" }`)
	keysOnly := newToken(t, o, "keys", `key_prefix "leaderrun/" { policy = "write" }`)
	const all = "Acquire Renew Finish Abandon Order Inspect Jobs"
	for _, c := range []struct {
		name, url string
		kind      backends.PermanentKind
		hint      string
		steps     string
	}{
		{"wrong token", "consul://:" + wrong + "@" + acl.Addr(), backends.Credentials, "token", all},
		{"no token", "consul://" + acl.Addr(), backends.Credentials, "token", "Acquire Abandon"},
		{"read only", "consul://:" + reader + "@" + acl.Addr(), backends.Credentials, "policy", "Acquire Abandon"},
		{"another prefix", "consul://:" + elsewhere + "@" + acl.Addr(), backends.Credentials, "policy", all},
		{"no sessions", "consul://:" + keysOnly + "@" + acl.Addr(), backends.Credentials, "policy", "Acquire"},
		{"namespace", plain.URL() + "?namespace=n", backends.Configuration, "?namespace=", all},
		{"partition", plain.URL() + "?partition=n", backends.Configuration, "?partition=", all},
		{"no TLS there", "consuls://" + plain.Addr(), backends.Configuration, "consul://", all},
		{"TLS there", "consul://" + secure.Addr(), backends.Configuration, "consuls://", all},
		{"unknown authority", "consuls://" + secure.Addr(), backends.Configuration, "?ca=", all},
		{"wrong name", "consuls://" + secure.Addr() + ca + "&server-name=x.org", backends.Configuration, "server-name", all},
		{"no certificate", "consuls://" + secure.Addr() + ca, backends.Credentials, "cert", all},
		{"sent elsewhere", "consul://" + strings.TrimPrefix(away.URL, "http://"), backends.Configuration, "Consul", all},
	} {
		for step, err := range steps.EveryStep(open(t, c.url), claim("job", "a", 10*time.Second)) {
			if !strings.Contains(c.steps, step) {
				continue
			}
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != c.kind || !strings.Contains(p.Hint, c.hint) {
				t.Errorf("%s: %s: %v (%+v), want kind %d, a hint with %q", c.name, step, err, p, c.kind, c.hint)
				continue
			}
			if strings.Contains(p.Error()+p.Hint, wrong) {
				t.Errorf("%s: %s shows the token: %v", c.name, step, p)
			}
		}
	}
	if n := o.sessions(t); n != 0 {
		t.Errorf("%d sessions of claims that were refused are left", n)
	}
	_, err := open(t, plain.URL()).Acquire(t.Context(), claim("job", "a", time.Second))
	if p, ok := errors.AsType[*backends.PermanentError](err); !ok || p.Kind != backends.Configuration || !strings.Contains(p.Hint, "session_ttl_min") {
		t.Errorf("a TTL that the server refuses: %v", err)
	}
}

// TestUnknownOutcomes: what passes is no answer, says which step and host it is of, and not where it would have
// gone without the driver.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	_ = closed.Close()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
	}))
	t.Cleanup(ill.Close)
	illAddr := strings.TrimPrefix(ill.URL, "http://")
	web := httptest.NewServer(http.NotFoundHandler()) // as a load balancer that knows no server
	t.Cleanup(web.Close)
	webAddr := strings.TrimPrefix(web.URL, "http://")
	s := server(t)
	for url, want := range map[string]string{
		"consul://:hunter2@" + addr:    addr + ": ",
		"consul://:hunter2@" + illAddr: illAddr + ": 500: No cluster leader",
		"consul://:hunter2@" + webAddr: webAddr,
		s.URL() + "?dc=west":           "No path to datacenter",
	} {
		for step, err := range suite.On(t).EveryStep(open(t, url), claim("job", "a", 10*time.Second)) {
			if err == nil || backends.IsPermanent(err) || errors.Is(err, backends.ErrLost) || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "/v1/") {
				t.Errorf("%s of %s: %v", step, url, err)
			}
			if step == "Acquire" && !strings.HasPrefix(fmt.Sprint(err), `claim "job": `) {
				t.Errorf("Acquire: %v", err)
			}
		}
	}
}

// TestHosts: a request that fails makes the next one go to another host, and a renewal beside one that is silent
// goes to another host at once.
func TestHosts(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	dead, m := servers.NewProxy(t, s.Addr()), between(t, s)
	dead.DropAll(true)
	d := open(t, "consul://"+dead.Addr()+","+strings.TrimPrefix(m.URL, "http://"))
	if _, err := d.Acquire(within(t, 300*time.Millisecond), claim("job", "a", time.Minute)); err == nil {
		t.Fatal("granted by a host that is silent")
	}
	g := steps.Acquire(d, claim("job", "a", time.Minute))
	steps.Renew(d, g)

	m.swallow("session/renew")
	m.requests()
	silent := make(chan error, 1)
	go func() {
		_, err := d.Renew(within(t, 5*time.Second), g)
		silent <- err
	}()
	servers.Eventually(t, "it is asked", func() bool { return m.requests() == "session/renew" })
	dead.DropAll(false)
	steps.Renew(d, g)
	if err := <-silent; err == nil {
		t.Error("a renewal without an answer succeeded")
	}
	m.strike(nil)
	steps.Finish(d, g)
}

// TestOneBadHost: what is wrong with one host ends nothing while there is another one.
func TestOneBadHost(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	away := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	t.Cleanup(away.Close)
	tls := servers.Consul(t, servers.ConsulOptions{TLS: servers.NewCertificates(t)})
	for name, addr := range map[string]string{
		"no Consul": strings.TrimPrefix(web.URL, "http://"), "sent elsewhere": strings.TrimPrefix(away.URL, "http://"), "TLS there": tls.Addr(),
	} {
		d := open(t, "consul://"+addr+","+s.Addr())
		if _, err := d.Acquire(t.Context(), claim(name, "a", time.Minute)); err == nil || backends.IsPermanent(err) {
			t.Errorf("%s: %v", name, err)
		}
		steps.Finish(d, steps.Acquire(d, claim(name, "a", time.Minute)))
	}
}

// TestAFaultOfAllHosts: hazard: with the URL of several hosts a wrong authority is tried for ever, and no run says what is
// wrong. Or one host whose certificate is bad ends a run that another would serve.
func TestAFaultOfAllHosts(t *testing.T) {
	t.Parallel()
	suite.FaultOfAll(t, Open, "consuls")
}

// TestNoConsul: hazard: a reply of a Consul's that was cut ends a run that the next try would start.
func TestNoConsul(t *testing.T) {
	t.Parallel()
	addr, _ := servers.ByHand(t, func(conn net.Conn) {
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
	})
	d := open(t, "consul://"+addr)
	inspect := func() error {
		_, err := d.Inspect(within(t, time.Minute), "job")
		return err
	}
	p, ok := errors.AsType[*backends.PermanentError](inspect())
	if !ok || p.Hint != serverHint {
		t.Errorf("a host that never spoke HTTP: %+v", p)
	}
	d.store.roundTripper.spoken.Store(true)
	if err := inspect(); err == nil || backends.IsPermanent(err) {
		t.Errorf("a reply that was cut: %v", err)
	}
	others := &statusError{code: http.StatusInternalServerError, text: "rpc error getting client: remote error: tls: bad certificate"}
	if err := d.store.roundTripper.classify(others); backends.IsPermanent(err) {
		t.Errorf("what servers say to each other: %v", err)
	}
}

// TestRotationRaces: of two requests with a token that was replaced meanwhile, the second to be refused is no more a
// refusal of the new token than the first.
func TestRotationRaces(t *testing.T) {
	alone(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	d := open(t, "consul://localhost?token-file="+url.QueryEscape(file))
	refusal := &statusError{code: http.StatusForbidden, text: "ACL not found"}
	if err := d.store.roundTripper.classify(refusal); !backends.IsPermanent(err) {
		t.Errorf("a refusal of the token that the file holds: %v", err)
	}
	write("second")
	for range 2 {
		if err := d.store.roundTripper.classify(refusal); backends.IsPermanent(err) {
			t.Errorf("a refusal of the token before: %v", err)
		}
	}
}

// TestSecondaryDatacenter: one that cannot ask the primary denies everything, and means nobody.
func TestSecondaryDatacenter(t *testing.T) {
	alone(t)
	d := open(t, "consul://localhost")
	err := d.store.roundTripper.classify(&statusError{code: http.StatusForbidden, text: "Permission denied: token with AccessorID 'primary-dc-down' lacks permission"})
	if backends.IsPermanent(err) {
		t.Errorf("%v", err)
	}
}

// TestTokenRotates: a token file is read again when its token is refused, and the URL where the token stands there.
func TestTokenRotates(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := servers.Consul(t, servers.ConsulOptions{Token: management, Config: shortest + "\nacl = { token_ttl = \"0s\" }"})
	o := operate(t, s.URL())
	file := filepath.Join(t.TempDir(), "token")
	put := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := newToken(t, o, "first", policy(t))
	put(first)
	d := open(t, s.URL()+"?token-file="+url.QueryEscape(file))
	g := steps.Acquire(d, claim("job", "a", time.Minute))
	self, _, err := o.store.client.ACL().TokenReadSelf(nil)
	if err != nil || self == nil {
		t.Fatal(err)
	}
	tokens, _, err := o.store.client.ACL().TokenList(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if len(token.Policies) == 1 && token.Policies[0].Name == "first" {
			if _, err := o.store.client.ACL().TokenDelete(token.AccessorID, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := d.Renew(t.Context(), g); !backends.IsPermanent(err) || strings.Contains(err.Error(), first) {
		t.Errorf("with a token that was deleted: %v", err)
	}
	put(newToken(t, o, "second", policy(t)))
	if _, err := d.Renew(t.Context(), g); err == nil || backends.IsPermanent(err) {
		t.Errorf("the first request after the rotation: %v, want an unknown outcome", err)
	}
	steps.Renew(d, g)
	steps.Finish(d, g)

	// A token in the URL is read again with the URL.
	with := func(token string) string { return strings.Replace(s.URL(), "://", "://:"+token+"@", 1) }
	d = open(t, with(first))
	d.FollowURL(with(first), func() (string, error) { return with(newToken(t, o, "third", policy(t))), nil })
	g = steps.Acquire(d, claim("job", "b", time.Minute))
	steps.Finish(d, g)
}
