package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// ErrNoTLS says that a server offers no TLS.
var ErrNoTLS = errors.New("the server offers no TLS")

// errBusy is what a server says before anything else if it cannot start a process for us.
var errBusy = errors.New("the server takes no connection")

// Dial opens a connection to one address. It ends with ctx.
func Dial(ctx context.Context, cfg *Config, addr string) (*Conn, error) {
	c := newConn(addr)
	if err := c.logIn(ctx, cfg, connect); err != nil {
		if ctxErr := ctx.Err(); ctxErr != nil {
			err = fmt.Errorf("%w (%w)", ctxErr, err)
		}
		if c.raw == nil { // such an error names the address
			return nil, err
		}
		if errors.Is(err, io.EOF) { // most servers of another kind say nothing more
			err = fmt.Errorf("%w (is this a PostgreSQL?)", err)
		}
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return c, nil
}

// connector opens a connection to an address, and encrypts it if the configuration wants that. The name in addr is verified. raw
// is below TLS.
type connector func(ctx context.Context, cfg *Config, to, addr string) (raw, conn net.Conn, err error)

func connect(ctx context.Context, cfg *Config, to, addr string) (raw, conn net.Conn, err error) {
	raw, err = new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	conn, err = encrypt(ctx, cfg, raw, addr)
	if !stop() {
		err = cmp.Or(err, ctx.Err())
	}
	if err != nil {
		_ = raw.Close()
	}
	return raw, conn, err
}

// encrypt asks for TLS, if the configuration wants it. The library would take any answer but yes for the same, and with Prefer go
// on without TLS where a certificate is wrong.
func encrypt(ctx context.Context, cfg *Config, raw net.Conn, addr string) (net.Conn, error) {
	if cfg.Security == Plain {
		return raw, nil
	}
	request, err := new(pgproto3.SSLRequest).Encode(nil)
	if err != nil {
		return nil, err
	}
	if _, err := raw.Write(request); err != nil {
		return nil, err
	}
	// One byte and no more is read before the handshake: what came after it would be from somebody between (CVE-2021-23222).
	var answer [1]byte
	if _, err := raw.Read(answer[:]); err != nil {
		return nil, err
	}
	switch {
	case answer[0] == 'N' && cfg.Security == Prefer:
		return raw, nil
	case answer[0] == 'N':
		return nil, ErrNoTLS
	case answer[0] == 'E':
		return nil, errBusy
	case answer[0] != 'S':
		return nil, unexpected("what answers is no PostgreSQL server")
	}
	conn, err := backendurl.StartTLS(ctx, raw, cmp.Or(cfg.TLS, new(tls.Config)), addr, "postgresql")
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// logIn lets the library say who we are, and prove it, until the server is ready.
func (c *Conn) logIn(ctx context.Context, cfg *Config, connect connector) error {
	shared, err := blank()
	if err != nil {
		return err
	}
	config := shared.Copy()
	user, password := cfg.Login.Get()
	config.User, config.Password, config.Database = cmp.Or(user, cfg.User), password, cfg.Database
	config.RuntimeParams = map[string]string{"application_name": cfg.Application, "client_encoding": "UTF8"}
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, cfg, connect) }
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		c.in = newSource(r)
		c.in.logIn = &logIn{cfg: cfg, tls: c.Encrypted(), secret: c.Encrypted() || isLocal(c.raw)}
		config.ChannelBinding = cmp.Or(cfg.Binding, "prefer")
		if config.ChannelBinding == "prefer" && !bindable(c.conn) {
			config.ChannelBinding = "disable"
		}
		return pgproto3.NewFrontend(c.in, w)
	}
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		if c.raw != nil {
			_ = c.raw.Close()
		}
		return c.cause(err)
	}
	c.in.logIn = nil
	c.pg, c.front = pg, pg.Frontend()
	for name := range c.params {
		c.params[name] = httplimit.Brief(pg.ParameterStatus(name))
	}
	return nil
}

// dial is how the library connects: once for the connection, and later for requests to cancel what it waits for. These go to
// the same address, because the host's name may have another one by now, and are as encrypted: the key is for nobody between.
func (c *Conn) dial(ctx context.Context, cfg *Config, connect connector) (net.Conn, error) {
	if c.raw == nil {
		c.raw, c.conn, c.in.err = connect(ctx, cfg, c.addr, c.addr)
		return c.conn, c.in.err
	}
	if c.pg == nil { // a log-in has failed, which the library would cancel
		return nil, net.ErrClosed
	}
	alike := *cfg
	alike.Security = Plain
	if c.Encrypted() {
		alike.Security = Must
	}
	_, conn, err := connect(ctx, &alike, c.raw.RemoteAddr().String(), c.addr)
	return conn, err
}

// cause is why a log-in failed. The library shows what it was configured with; here is what it found.
func (c *Conn) cause(err error) error {
	if c.in.err != nil || c.in.logIn == nil { // what we refused, or what has become of the connection
		return cmp.Or(c.in.err, err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return reportOf(&pgproto3.ErrorResponse{
			Severity: e.Severity, SeverityUnlocalized: e.SeverityUnlocalized, Code: e.Code,
			Message: e.Message, Routine: e.Routine,
		})
	}
	if unsent, ok := errors.AsType[interface {
		error
		SafeToRetry() bool
	}](err); ok { // what has become of it while we wrote
		return cmp.Or(errors.Unwrap(unsent), error(unsent))
	}
	switch c.in.logIn.asked {
	case authContinue:
		return errChallenge
	case authFinal:
		return errScram
	}
	return c.in.malformed()
}

// bindable says whether SCRAM can be bound to the certificate that a server has shown. Of some there is no agreed digest, and a
// client that could bind itself otherwise is refused by a server that could.
func bindable(conn net.Conn) bool {
	t, ok := conn.(*tls.Conn)
	if !ok {
		return true
	}
	switch t.ConnectionState().PeerCertificates[0].SignatureAlgorithm {
	case x509.PureEd25519, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS:
		return false
	}
	return true
}

// isLocal says whether a connection does not leave this machine.
func isLocal(conn net.Conn) bool {
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// unset names all that the library would else take from the environment and from files of the user. Nobody is connected to by it.
const unset = "host=127.0.0.1 port=1 user=x password=x database=x passfile='' sslmode=disable sslcertmode=disable sslcert='' sslkey='' sslrootcert='' " +
	"sslpassword='' sslnegotiation='' connect_timeout=0 target_session_attrs=any min_protocol_version=3.0 max_protocol_version=3.0 " +
	"channel_binding=prefer require_auth=''"

// blank returns a configuration of the library that says nothing. The library wants each to come from its own reading of
// the environment, which must not count and must not fail.
var blank = sync.OnceValues(readBlank)

func readBlank() (*pgconn.Config, error) {
	if os.Getenv("PGSERVICE") == "" {
		return pgconn.ParseConfig(unset)
	}
	// A service that is named cannot be unnamed, and has to be in a file. One that says nothing takes its place.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	_, err = w.WriteString("[none]\n")
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return pgconn.ParseConfig(fmt.Sprintf("%s service=none servicefile=/dev/fd/%d", unset, r.Fd()))
}
