package postgres

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	defaultTable = "leaderrun"
	longestHint  = "use a shorter TTL; or ?longest-ttl=DURATION in the backend URL raises it, on every host; after a restart or a failover nobody starts for so long"
	modes        = "disable, prefer, require, verify-ca or verify-full; prefer, the default, verifies nothing"
	longestName  = 63 // bytes of an identifier
)

// form is that of the URLs; sslrootcert, sslcert and sslkey are what libpq calls ca, cert and key.
var form = backendurl.Form{
	Of:        "a PostgreSQL backend",
	Shapes:    "postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?prefix=TABLE&sslmode=verify-full",
	Schemes:   map[string]backendurl.Scheme{"postgres": {Port: "5432", TLS: true}, "postgresql": {Port: "5432", TLS: true}},
	UserAlone: true, PasswordAlone: true,
	TLSNames: map[string]string{"sslrootcert": "ca", "sslcert": "cert", "sslkey": "key"},
}

// config is what a backend URL says.
type config struct {
	url      *backendurl.URL
	prefix   string        // the table's name as it was given
	table    string        // the same, quoted for SQL
	user     string        // ?user=
	mode     string        // ?sslmode=; "": not given
	binding  string        // ?channel_binding=; "": not given
	name     string        // ?application_name=
	patience time.Duration // ?connect_timeout=
	longest  time.Duration
	wire     wire.Config
}

var knownOptions = backendurl.Options[config]{
	"prefix":               {Help: "the name of the table, or SCHEMA.TABLE", Set: func(c *config, v string) error { c.prefix = v; return nil }},
	"user":                 {Help: "the user, in the place of USER@", Set: func(c *config, v string) error { c.user = v; return nil }},
	"sslmode":              {Help: modes, Set: setMode},
	"channel_binding":      {Help: "disable, prefer or require: whether the proof of the password is bound to the server's certificate", Set: setBinding},
	"application_name":     backendurl.Text("what pg_stat_activity shows", func(c *config) *string { return &c.name }),
	"connect_timeout":      {Help: "seconds for the connection to one host; 0: as long as the request may take", Set: setPatience},
	"target_session_attrs": {Help: "read-write, primary or any: a server that takes writes is used in any case", Set: setTarget},
	"longest-ttl":          backendurl.LongestTTL(func(c *config) *time.Duration { return &c.longest }),
}

func setMode(c *config, mode string) error {
	switch mode {
	case "disable", "prefer", "require", "verify-ca", "verify-full":
		c.mode = mode
		return nil
	case "allow":
		return errors.New("allow encrypts only what a server insists on: use prefer, or better verify-full")
	}
	return errors.New("no such mode")
}

func setBinding(c *config, text string) error {
	c.binding = text
	if text != "disable" && text != "prefer" && text != "require" {
		return errors.New("no such value")
	}
	return nil
}

// setPatience reads seconds. As with libpq, none and less are without limit, and 1 is 2.
func setPatience(c *config, text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return errors.New("it is not a number of seconds")
	}
	if n > 0 {
		c.patience = time.Duration(max(n, 2)) * time.Second
	}
	return nil
}

func setTarget(_ *config, text string) error {
	switch text {
	case "any", "read-write", "primary":
		return nil
	}
	return errors.New("leases are kept on a server that takes writes")
}

// parseURL reads a backend URL. No error here shows any part of the URL that a password may be in.
func parseURL(raw string) (*config, error) {
	c := &config{longest: backendurl.DefaultLongestTTL, prefix: defaultTable}
	u, err := backendurl.Read(raw, form, knownOptions, c)
	if err != nil {
		return nil, err
	}
	c.url = u
	given, password := u.Login.Get()
	user := cmp.Or(given, c.user)
	switch {
	case given != "" && c.user != "":
		return nil, backends.Misconfigured(form.Shapes, "the backend URL has two users, before its hosts and in its options")
	case user == "":
		return nil, backends.Misconfigured(form.Shapes, "the backend URL names no user")
	case given == "" && password != "":
		return nil, backends.Misconfigured(form.Shapes, "the backend URL has a password without a user")
	}
	database, err := databaseOf(u)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(user+password, "\x00") {
		return nil, backends.Misconfigured(form.Shapes, "the user or password in the backend URL has a zero byte")
	}
	if c.table, err = quoteTable(c.prefix); err != nil {
		return nil, err
	}
	c.wire = wire.Config{
		Addrs: u.Addrs, User: user, Login: u.Login, Database: cmp.Or(database, user), Application: cmp.Or(c.name, "leaderrun"),
		Binding: c.binding, ConnectTimeout: c.patience,
	}
	err = c.secure()
	return c, err
}

// databaseOf returns the name of the database; "": that of the user. It refuses what reads as one thing and would be another.
func databaseOf(u *backendurl.URL) (string, error) {
	if slices.ContainsFunc(u.Addrs, func(addr string) bool { return strings.Contains(strings.ToUpper(addr), "%2F") }) {
		return "", backends.Misconfigured("name a host, such as localhost: a server on the same machine is asked over TCP too",
			"the backend URL has a socket in the place of a host")
	}
	path := strings.TrimSuffix(u.Path, "/")
	if strings.Contains(path, "/") {
		return "", backends.Misconfigured("the path names the database, ?prefix= the table; a slash in a name is written as %2F",
			"the path of the backend URL has more than the name of a database")
	}
	database, err := url.PathUnescape(path)
	if err != nil || strings.Contains(database, "\x00") {
		return "", backends.Misconfigured(form.Shapes, "the path of the backend URL is not the name of a database")
	}
	return database, nil
}

// quoteTable writes TABLE or SCHEMA.TABLE as SQL has it. No name is folded to lower case.
func quoteTable(name string) (string, error) {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		if len(parts) > 2 || part == "" || len(part) > longestName || strings.Contains(part, "\x00") {
			return "", backends.Misconfigured("?prefix=TABLE or ?prefix=SCHEMA.TABLE", "the prefix of the backend URL is not the name of a table")
		}
		parts[i] = quote(part)
	}
	return strings.Join(parts, "."), nil
}

// quote writes an identifier as SQL has it.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// secure sets what is verified. As with libpq, nothing is unless the URL says so; but an authority that it names is
// never ignored, and a password goes in clear text only inside of TLS to a host whose name was verified: with verify-ca whoever has
// a certificate of the same authority would get it.
func (c *config) secure() error {
	named := c.url.Files.CA != ""
	mode := c.mode
	if mode == "" && named {
		mode = "verify-full"
	}
	if c.binding == "require" && (mode == "" || mode == "prefer") { // there is nothing to bind to without TLS
		mode = "require"
	}
	verifies := strings.HasPrefix(mode, "verify-")
	given := c.url.Files.Cert != "" || c.url.Files.Key != "" || c.url.Files.ServerName != "" || named
	switch {
	case mode == "disable" && given:
		return backends.Misconfigured("?sslmode=verify-full", "the backend URL names certificates, and says sslmode=disable")
	case mode == "disable" && c.binding == "require":
		return backends.Misconfigured("?sslmode=require or better verify-full", "the backend URL says channel_binding=require, and sslmode=disable: there is no certificate to bind to")
	case mode == "disable":
		return nil
	case mode == "prefer" && named:
		return backends.Misconfigured("?sslmode=verify-full", "the backend URL names an authority, and says sslmode=prefer, which does not ask it")
	case mode == "require" && named: // as libpq has it
		mode, verifies = "verify-ca", true
	}
	config, err := c.url.Files.Config()
	if err != nil {
		return err
	}
	c.wire.Security, c.wire.ClearText, c.wire.TLS = wire.Must, mode == "verify-full", config
	if mode == "" || mode == "prefer" {
		c.wire.Security = wire.Prefer
	}
	switch {
	case !verifies:
		config.InsecureSkipVerify = true //nolint:gosec // the user's choice: docs/backends.md says what it is worth
	case mode == "verify-ca":
		config.InsecureSkipVerify = true //nolint:gosec // the chain is verified, only the name is not
		config.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(config.RootCAs, s) }
	}
	return nil
}

// verifyChain is what crypto/tls does, without the name.
func verifyChain(roots *x509.CertPool, s tls.ConnectionState) error {
	intermediates := x509.NewCertPool()
	for _, cert := range s.PeerCertificates[1:] {
		intermediates.AddCert(cert)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}
