package etcd

import (
	"crypto/tls"

	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const defaultPrefix = "leaderrun"

var form = backendurl.Form{
	Of:      "an etcd backend",
	Shapes:  "etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX, etcds:// (TLS)",
	Schemes: map[string]backendurl.Scheme{"etcd": {Port: "2379"}, "etcds": {Port: "2379", TLS: true}},
}

// config is what a backend URL says.
type config struct {
	url    *backendurl.URL
	prefix string      // what all keys begin with, before a slash
	tls    *tls.Config // nil: none
}

var knownOptions = backendurl.Options[config]{
	"prefix": backendurl.Prefix(func(c *config) *string { return &c.prefix }),
}

// parseURL reads a backend URL. No error here shows any part of the URL that a password may be in.
func parseURL(raw string) (*config, error) {
	c := &config{}
	u, err := backendurl.Read(raw, form, knownOptions, c)
	if err != nil {
		return nil, err
	}
	c.url = u
	if c.prefix, err = u.Prefix(c.prefix, defaultPrefix); err != nil {
		return nil, err
	}
	c.tls, err = u.Files.Config()
	return c, err
}
