package etcd

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// saying is a server that answers the same to everybody.
func saying(t *testing.T, text string) string {
	t.Helper()
	addr, _ := servers.ByHand(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 24)) // the preface of a client, or the beginning of a handshake
		_, _ = io.WriteString(conn, text)
	})
	return addr
}

// TestAFaultOfAllMembers: hazard: with the URL of three members a wrong authority is tried for ever, and no run says what is
// wrong. Or one member whose certificate is bad ends a run that another would serve.
func TestAFaultOfAllMembers(t *testing.T) {
	t.Parallel()
	suite.FaultOfAll(t, Open, "etcds")
	d := open(t, "etcd://a,b")
	old := &rpc.Error{Code: rpc.Unimplemented, Message: "unknown method"}
	if d.store.ended("a:2379", old); backends.IsPermanent(d.store.classify(old)) {
		t.Error("one of two is too old")
	}
	if d.store.ended("b:2379", old); !backends.IsPermanent(d.store.classify(old)) {
		t.Error("both are too old")
	}
}

// TestNoEtcd: hazard: another server is asked for ever as if it was an etcd; or a reply of an etcd's that was cut, or a page of
// a load balancer's, ends a run that the next try would start.
func TestNoEtcd(t *testing.T) {
	t.Parallel()
	page := func(status int) string {
		s := &http.Server{ //nolint:gosec // of a test
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(status)
			}),
			Protocols: new(http.Protocols),
		}
		s.Protocols.SetUnencryptedHTTP2(true)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
		return l.Addr().String()
	}
	certs := servers.NewCertificates(t)
	old, _ := servers.Shaking(t, certs.Server(t)) // without HTTP/2
	for name, c := range map[string]struct {
		url       string
		permanent bool
		say       string
	}{
		"a web server":                {"etcd://" + saying(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), true, "HTTP/2"},
		"a Redis":                     {"etcd://" + saying(t, "-ERR unknown command\r\n"), true, "HTTP/2"},
		"a page":                      {"etcd://" + page(http.StatusOK), true, "text/html"},
		"a web server with TLS":       {"etcds://" + old + "?ca=" + certs.CA, true, "HTTP/2"},
		"a proxy without a member":    {"etcd://" + page(http.StatusServiceUnavailable), false, "is this an etcd server?"},
		"one that hangs up":           {"etcd://" + saying(t, ""), false, "want TLS?"},
		"one that hangs up, with TLS": {"etcds://" + saying(t, "") + "?ca=" + certs.CA, false, "speak TLS?"},
	} {
		d := open(t, c.url)
		_, err := d.Acquire(t.Context(), newClaim("job"))
		p, permanent := errors.AsType[*backends.PermanentError](err)
		if err == nil || permanent != c.permanent || !strings.Contains(err.Error(), c.say) || permanent && !strings.Contains(p.Hint, "is this an etcd server") {
			t.Errorf("%s: %v (%+v)", name, err, p)
		}
		d.store.spoken.Store(true)
		if _, err := d.Acquire(t.Context(), newClaim("job")); err == nil || backends.IsPermanent(err) {
			t.Errorf("%s, where an etcd has answered before: %v", name, err)
		}
	}
}
