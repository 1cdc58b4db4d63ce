package wire

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
)

// The example of RFC 7677, section 3.
const (
	rfcNonce     = "rOprNGfwEbeRWgbNEkqO"
	rfcChallenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)

func TestScramChallenges(t *testing.T) {
	t.Parallel()
	if err := acceptable(rfcChallenge); err != nil {
		t.Errorf("that of the RFC: %v", err)
	}
	for _, challenge := range []string{
		"", "r=" + rfcNonce, "r=" + rfcNonce + "x,s=,i=x", "r=" + rfcNonce + "x,s=AAAA,i=x", "r=" + rfcNonce + "x,s=,i=4096",
		"r=" + rfcNonce + "x,s=AAAA,i=0",          // no work at all
		"r=" + rfcNonce + "x,s=AAAA,i=4095",       // too little
		"r=" + rfcNonce + "x,s=AAAA,i=2000000000", // hours of it
	} {
		if err := acceptable(challenge); err == nil {
			t.Errorf("%q is answered", challenge)
		}
	}
}

// TestOrdersOfALogIn: of all that a server may ask for, one after the other, three orders let us in. They are told here without the
// library, which has checks of its own.
func TestOrdersOfALogIn(t *testing.T) {
	t.Parallel()
	texts := map[uint32]string{
		authOK: "", authClear: "", authMD5: "salt", authSASL: scramMechanism + "\x00" + scramMechanism + "-PLUS\x00\x00", authContinue: "r=x,s=AAAA,i=4096", authFinal: "v=AAAA",
	}
	let := map[string]bool{"[0]": true, "[3 0]": true, "[5 0]": true, "[10 11 12 0]": true}
	bound := map[string]bool{"[10 11 12 0]": true} // channel_binding=require
	var try func(kinds []uint32, binding string, let map[string]bool)
	try = func(kinds []uint32, binding string, let map[string]bool) {
		l := &logIn{cfg: &Config{Login: backendurl.NewLogin("", "p"), ClearText: true, Binding: binding}, tls: true, secret: true}
		var err error
		for _, kind := range kinds {
			if err = l.handle('R', append(binary.BigEndian.AppendUint32(nil, kind), texts[kind]...)); err != nil {
				break
			}
		}
		order := fmt.Sprint(kinds)
		if in := err == nil && l.handle('Z', nil) == nil; in != let[order] {
			t.Errorf("%s: let in: %v, %v", order, in, err)
		}
		if len(kinds) < 5 {
			for kind := range texts {
				try(append(slices.Clip(kinds), kind), binding, let)
			}
		}
	}
	try(nil, "", let)
	try(nil, "require", bound)
	texts[authSASL] = scramMechanism + "\x00\x00"
	try(nil, "require", nil) // the server has nothing to bind to
	try(nil, "prefer", let)
}

// TestFailedLogIn: whoever is refused is left alone: nobody connects once more to cancel what was never begun.
func TestFailedLogIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		connections := 0
		err := newConn("h:5432").logIn(t.Context(), new(Config), func(context.Context, *Config, string, string) (net.Conn, net.Conn, error) {
			connections++
			ours, theirs := net.Pipe()
			go func() {
				defer func() { _ = theirs.Close() }()
				read(theirs)
				send(theirs, welcome, process, "garbage")
			}()
			return ours, ours, nil
		})
		synctest.Wait()
		if _, ok := errors.AsType[*ProtocolError](err); !ok || connections != 1 {
			t.Errorf("%v, %d connections", err, connections)
		}
	})
}

// TestNothingButTheURL: what libpq would read from the environment and from the user's files does not count, and does no harm.
// The test is not parallel: it changes the environment.
func TestNothingButTheURL(t *testing.T) {
	s := servers.Postgres(t, servers.PostgresOptions{})
	t.Setenv("HOME", t.TempDir())
	for name := range strings.FieldsSeq(`PGHOST PGPORT PGDATABASE PGUSER PGPASSWORD PGPASSFILE PGAPPNAME PGCONNECT_TIMEOUT PGSSLMODE PGSSLKEY PGSSLCERT
		PGSSLCERTMODE PGSSLSNI PGSSLROOTCERT PGSSLPASSWORD PGSSLNEGOTIATION PGTARGETSESSIONATTRS PGTZ PGOPTIONS PGMINPROTOCOLVERSION
		PGMAXPROTOCOLVERSION PGCHANNELBINDING PGREQUIREAUTH PGSERVICE PGSERVICEFILE PGHOSTADDR PGGSSENCMODE PGKRBSRVNAME PGCLIENTENCODING`) {
		t.Setenv(name, "nonsense")
		if _, err := readBlank(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	config, err := readBlank()
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Fallbacks) != 0 || config.TLSConfig != nil || config.ConnectTimeout != 0 || config.ValidateConnect != nil || config.RequireAuth != "" || config.ChannelBinding != "prefer" {
		t.Errorf("%+v", config)
	}
	before := blank
	blank = readBlank
	defer func() { blank = before }()
	c := dial(t, configOf(t, s))
	got, err := c.Ask(within(t), []Statement{{SQL: "SELECT current_user, current_database(), current_setting('application_name'), current_setting('TimeZone') <> 'nonsense'"}})
	if err != nil || fmt.Sprint(got.Rows[0][0]) != "[{postgres true} {postgres true} {test true} {t true}]" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestChannelBinding: inside of TLS SCRAM is bound to the certificate, so that nobody between can pass it on.
func TestChannelBinding(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	s := servers.Postgres(t, servers.PostgresOptions{TLS: certs})
	between := servers.NewCertificates(t)
	cfg := configOf(t, s)
	cfg.Security, cfg.TLS = Must, certs.Client()
	dial(t, cfg)
	cfg.TLS = between.Client()
	cfg.TLS.InsecureSkipVerify = true //nolint:gosec // as sslmode=require has it
	addr := tlsBetween(t, between.Server(t), s.Addr())
	c, err := Dial(within(t), &cfg, addr)
	if err == nil {
		c.Close()
	}
	if e, ok := errors.AsType[*Error](err); !ok || !strings.HasPrefix(e.Code, AuthenticationClass) {
		t.Errorf("what was meant for one server logs in on another: %v", err)
	}
}

// TestUnboundCertificate: a certificate that SCRAM cannot be bound to keeps nobody out, though the server could bind it to others.
func TestUnboundCertificate(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	s := servers.Postgres(t, servers.PostgresOptions{TLS: servers.NewCertificates(t)})
	cfg := configOf(t, s)
	cfg.Security, cfg.TLS = Must, &tls.Config{InsecureSkipVerify: true}                                       //nolint:gosec // as sslmode=require has it
	shown := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: private}}} //nolint:gosec // as it is
	cfg.Addrs = []string{tlsBetween(t, shown, s.Addr())}
	if c := dial(t, cfg); !c.Encrypted() {
		t.Error("without TLS")
	}
}

// tlsBetween returns the address of somebody between a client and a server, who speaks TLS with each.
func tlsBetween(t *testing.T, config *tls.Config, server string) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		request := read(conn)
		to, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer func() { _ = to.Close() }()
		_, _ = to.Write(request)
		if answer := read(to); string(answer) != "S" {
			return
		}
		_, _ = conn.Write([]byte("S"))
		ours := tls.Server(conn, config)
		theirs := tls.Client(to, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whoever stands between does not care
		go func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.Copy(ours, theirs)
		}()
		_, _ = io.Copy(theirs, ours)
	})
}
