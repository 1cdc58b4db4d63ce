package backendurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

// speak opens a connection over TLS and reads from it: over TLS 1.3 a server refuses a client after the handshake.
func speak(ctx context.Context, addr string, c *tls.Config) error {
	c.ServerName = "127.0.0.1"
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	conn := tls.Client(raw, c)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// TestTLSFault: hazard: a server that no retry reaches is asked for ever, or the other way round.
func TestTLSFault(t *testing.T) {
	t.Parallel()
	certs, others := servers.NewCertificates(t), servers.NewCertificates(t)
	strict := certs.Server(t)
	strict.ClientAuth = tls.RequireAndVerifyClientCert
	server, _ := servers.Shaking(t, strict)
	modern := strict.Clone()
	modern.MinVersion = tls.VersionTLS13
	modernServer, _ := servers.Shaking(t, modern)
	plain, _ := servers.ByHand(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	silent, _ := servers.ByHand(t, func(net.Conn) {})
	old := func(c *tls.Config) *tls.Config { c.MaxVersion = tls.VersionTLS12; return c }
	bare := func(c *tls.Config) *tls.Config { c.Certificates = nil; return c }
	strange := certs.Client()
	strange.Certificates = others.Client().Certificates
	wrongClock := certs.Client()
	wrongClock.Time = func() time.Time { return time.Unix(0, 0) }
	r := RemediesOf("x")
	for name, c := range map[string]struct {
		addr   string
		config *tls.Config
		kind   backends.PermanentKind // 0: it passes
		hint   string
	}{
		"another authority":             {server, others.Client(), backends.Configuration, r.CA},
		"no certificate":                {server, bare(certs.Client()), backends.Credentials, r.Cert},
		"no certificate, over TLS 1.2":  {server, bare(old(certs.Client())), backends.Credentials, r.Cert},
		"a certificate of others":       {server, strange, backends.Credentials, r.Cert},
		"another version":               {modernServer, old(certs.Client()), backends.Configuration, "another version"},
		"no TLS there":                  {plain, certs.Client(), backends.Configuration, "x://"},
		"a server that hangs up":        {silent, certs.Client(), 0, ""},
		"before our clock is set":       {server, wrongClock, 0, ""},
		"a server that ends in between": {server, certs.Client(), 0, ""},
	} {
		err := speak(t.Context(), c.addr, c.config)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		p := r.Fault(fmt.Errorf("h: %w", err))
		switch {
		case p == nil && c.kind == 0:
		case p == nil, p.Kind != c.kind, !strings.Contains(p.Hint, c.hint), !errors.Is(p, err):
			t.Errorf("%s: %v: %+v, want kind %d, hint %q", name, err, p, c.kind, c.hint)
		}
	}
	if p := r.Fault(errors.New("500: rpc error: remote error: tls: bad certificate")); p != nil {
		t.Errorf("what a server says of others: %+v", p)
	}
	if p := (TLSRemedies{}).Fault(tls.RecordHeaderError{}); p != nil {
		t.Errorf("a driver that judges it by itself: %+v", p)
	}
}

func TestOpening(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		tls  bool
		want string
	}{
		{io.EOF, true, "EOF (is this a store, and does this port speak TLS?)"},
		{io.EOF, false, "EOF (is this a store, and does this port want TLS?)"},
		{net.ErrClosed, false, "use of closed network connection (is this a store, and does this port want TLS?)"},
		{context.DeadlineExceeded, true, "context deadline exceeded (is this a store, and does this port speak TLS?)"},
		{context.DeadlineExceeded, false, "context deadline exceeded"},
	} {
		if err := Opening(c.err, c.tls, "a store"); err.Error() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
