package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestErrors: what no retry mends is permanent, with a hint, and no password is shown.
func TestErrors(t *testing.T) {
	limited := strings.Replace(aclLine(t), "+info", "", 1)
	s := servers.Redis(t, servers.RedisOptions{Password: "dflt-pw", ACL: []string{limited}})
	certs := servers.NewCertificates(t)
	secure := servers.Redis(t, servers.RedisOptions{TLS: certs})
	node := servers.Redis(t, servers.RedisOptions{Cluster: true})
	says := func(text string) string {
		addr, _ := servers.ByHand(t, func(conn net.Conn) { _, _ = io.WriteString(conn, text) })
		return addr
	}
	http := says("HTTP/1.1 400 Bad Request\r\n\r\n")
	denies := says("-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode " +
		"connections are only accepted from the loopback interface.\r\n")
	full := says("-ERR max number of clients reached\r\n")
	good := url.QueryEscape(secret)
	for _, c := range []struct {
		name, url string
		kind      backends.PermanentKind // 0: unknown outcome
	}{
		{"no password", "redis://" + s.Addr(), backends.Credentials},
		{"wrong password", "redis://:wr0ng-pw@" + s.Addr(), backends.Credentials},
		{"wrong user", "redis://nobody:wr0ng-pw@" + s.Addr(), backends.Credentials},
		{"no right", "redis://leaderrun:" + good + "@" + s.Addr(), backends.Credentials},
		{"no right to the keys", "redis://leaderrun:" + good + "@" + s.Addr() + "?prefix=other", backends.Credentials},
		{"no such database", "redis://:dflt-pw@" + s.Addr() + "/99", backends.Configuration},
		{"no Redis", "redis://:wr0ng-pw@" + http, backends.Configuration},
		{"protected mode", "redis://" + denies, backends.Credentials},
		{"protected mode of a Sentinel", "redis+sentinel://" + denies + "/main", backends.Credentials},
		{"protected mode of a Cluster", "redis+cluster://" + denies, backends.Credentials},
		{"too many clients", "redis://" + full, 0},
		{"TLS without", "redis://" + secure.Addr(), 0},
		{"unknown authority", "rediss://" + secure.Addr(), backends.Configuration},
		{"no TLS", "rediss://:wr0ng-pw@" + s.Addr(), 0},
		{"a node of a cluster", "redis://" + node.Addr(), 0},
		{"no cluster", "redis+cluster://:dflt-pw@" + s.Addr(), backends.Configuration},
		{"no Sentinel", "redis+sentinel://" + s.Addr() + "/main?sentinel-password=dflt-pw", backends.Configuration},
		{"nobody there", "redis://:wr0ng-pw@127.0.0.1:1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, c.url)
			_, err := d.Acquire(within(t, 5*time.Second), claim("job", long))
			if err == nil {
				t.Fatal("granted")
			}
			p, permanent := errors.AsType[*backends.PermanentError](err)
			if permanent != (c.kind != 0) || (permanent && (p.Kind != c.kind || p.Hint == "")) {
				t.Errorf("%v, %+v; want kind %d", err, p, c.kind)
			}
			if c.name == "too many clients" && !strings.Contains(err.Error(), "max number of clients") {
				t.Errorf("%v", err)
			}
			text := err.Error() + d.String() + fmt.Sprintf("%v %+v", d, d.Redacted())
			for _, password := range []string{"dflt-pw", "wr0ng-pw", secret, good} {
				if strings.Contains(text, password) {
					t.Errorf("shows a password: %s", text)
				}
			}
			t.Log(err)
		})
	}
}

// TestClientCertificateWanted: hazard: a server that demands a certificate is asked for ever.
func TestClientCertificateWanted(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		strict := certs.Server(t)
		strict.ClientAuth, strict.MaxVersion = tls.RequireAnyClientCert, version
		addr, _ := servers.ByHand(t, func(conn net.Conn) { _, _ = tls.Server(conn, strict).Read(make([]byte, 1)) })
		_, err := open(t, "rediss://"+addr+"?ca="+certs.CA).Acquire(within(t, suite.Patience), claim("job", long))
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || p.Kind != backends.Credentials || !strings.Contains(p.Hint, "?cert=") {
			t.Errorf("%s: %v (%+v)", tls.VersionName(version), err, p)
		}
	}
}

// TestACLIsLeast: without any one of its rights the ready-made ACL line is too short.
func TestACLIsLeast(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	tour := func(user string, db int) error {
		d := open(t, fmt.Sprintf("redis://%s:%s@%s/%d", user, url.QueryEscape(secret), s.Addr(), db))
		ctx := within(t, suite.Patience)
		g, err := d.Acquire(ctx, claim("job "+user, long))
		if err != nil && !strings.Contains(err.Error(), "quarantined") {
			return err
		}
		_, errRenew := d.Renew(ctx, g)
		_, errJobs := d.Jobs(ctx)
		_, errInspect := d.Inspect(ctx, g.Claim.Job)
		return errors.Join(errRenew, d.Finish(ctx, g, backends.Outcome{State: backends.Done}), d.Abandon(ctx, claim("job "+user, long)), errInspect, errJobs)
	}
	line := strings.Fields(aclLine(t))
	setUser := func(name string, without string) {
		t.Helper()
		words := []any{"acl", "setuser", name}
		for _, w := range line[2:] {
			if w != without {
				words = append(words, w)
			}
		}
		s.Do(t, words...)
	}
	setUser("whole", "")
	if err := tour("whole", 0); err != nil {
		t.Fatal(err)
	}
	if err := open(t, "redis://whole:"+url.QueryEscape(secret)+"@"+s.Addr()+"/1").Abandon(t.Context(), claim("x", long)); err != nil {
		t.Errorf("database 1: %v", err)
	}
	// Without +publish waiters wake by their timers; +ping asks a silent subscription, +wait is for replicas,
	// +select for a database, +subscribe and & for Watch, +hdel for a field that is emptied.
	elsewhere := []string{"on", "resetkeys", "resetchannels", "-@all", "+publish", "+ping", "+wait", "+select", "+subscribe", "&leaderrun:*", "+hdel", ">" + secret}
	for i, w := range line[2:] {
		if slices.Contains(elsewhere, w) || w == "+eval" { // the scripts are known by now
			continue
		}
		user := fmt.Sprintf("without%d", i)
		setUser(user, w)
		if err := tour(user, 0); !backends.IsPermanent(err) {
			t.Errorf("without %s: %v, want a permanent error", w, err)
		}
	}
}

// Hazard: a reply that was cut in the middle, as when a server wakes up that was frozen, is taken for a server of
// another kind, and nobody tries again.
func TestAGarbledReplyPasses(t *testing.T) {
	p := servers.NewProxy(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	d, err := Open("redis://" + p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	inspect := func() error {
		_, err := d.Inspect(t.Context(), "job")
		return err
	}
	p.Garble(true)
	if err := inspect(); !backends.IsPermanent(err) {
		t.Errorf("a server that never spoke Redis' protocol: %v", err)
	}
	p.Garble(false)
	if err := inspect(); !errors.Is(err, backends.ErrUnknownJob) {
		t.Fatal(err)
	}
	p.Garble(true)
	if err := inspect(); err == nil || backends.IsPermanent(err) || errors.Is(err, backends.ErrUnknownJob) {
		t.Errorf("a garbled reply: %v", err)
	}
	p.Garble(false)
	if err := inspect(); !errors.Is(err, backends.ErrUnknownJob) {
		t.Error(err)
	}
}
