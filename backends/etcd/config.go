package etcd

import (
	"crypto/tls"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	defaultPrefix = "leaderrun"
	defaultPort   = "2379"
	shapes        = "etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX, etcds:// (TLS)"
)

// config is what a backend URL says.
type config struct {
	url    *backendurl.URL
	prefix string // what all keys begin with, before a slash
	files  *backendurl.TLSFiles
	tls    *tls.Config // nil: none
}

var knownOptions = backendurl.Options[config]{
	"prefix": backendurl.Prefix(func(c *config) *string { return &c.prefix }),
}.WithTLS(func(c *config) *backendurl.TLSFiles { return c.files })

// parseURL reads a backend URL. No error here shows any part of the URL that a password may be in.
func parseURL(raw string) (*config, error) {
	c := &config{}
	switch backendurl.Scheme(raw) {
	case "etcd":
	case "etcds":
		c.files = new(backendurl.TLSFiles)
	default:
		return nil, backends.Misconfigured(shapes, "this is not the URL of an etcd backend")
	}
	u, err := backendurl.Parse(raw, backendurl.Form{Shapes: shapes, Port: defaultPort})
	if err != nil {
		return nil, err
	}
	c.url = u
	if u.User == "" && u.Password != "" {
		return nil, backends.Misconfigured(u.Scheme+"://USER:PASSWORD@HOST", "the backend URL has a password without a user")
	}
	if err := knownOptions.Read(u, c); err != nil {
		return nil, err
	}
	if c.prefix, err = u.Prefix(c.prefix, defaultPrefix); err != nil {
		return nil, err
	}
	c.tls, err = c.files.Config()
	return c, err
}
