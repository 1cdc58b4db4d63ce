package consul

import (
	"cmp"
	"crypto/tls"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

const defaultPrefix = "leaderrun"

var form = backendurl.Form{
	Of:            "a Consul backend",
	Shapes:        "consul://HOST:PORT, consul://:TOKEN@HOST,HOST/PREFIX, consuls:// (TLS)",
	Schemes:       map[string]backendurl.Scheme{"consul": {Port: "8500"}, "consuls": {Port: "8501", TLS: true}},
	PasswordAlone: true,
}

// config is what a backend URL says, and the token that Consul's users keep in the environment.
type config struct {
	url *backendurl.URL
	tls *tls.Config // nil: none

	prefix    string
	token     string // "": none, or the one in tokenFile
	tokenFile string
	dc        string
	namespace string
	partition string
}

var knownOptions = backendurl.Options[config]{
	"prefix":     backendurl.Prefix(func(c *config) *string { return &c.prefix }),
	"token-file": backendurl.Text("file with the token", func(c *config) *string { return &c.tokenFile }),
	"dc":         backendurl.Text("datacenter, where it is not that of the host", func(c *config) *string { return &c.dc }),
	"namespace":  backendurl.Text("namespace, in Consul Enterprise", func(c *config) *string { return &c.namespace }),
	"partition":  backendurl.Text("admin partition, in Consul Enterprise", func(c *config) *string { return &c.partition }),
}

// parseURL reads a backend URL. No error here shows any part of the URL that a token may be in.
func parseURL(raw string) (*config, error) {
	c := &config{}
	var err error
	if c.url, err = backendurl.Read(raw, form, knownOptions, c); err != nil {
		return nil, err
	}
	if c.url.Login.User() != "" {
		return nil, backends.Misconfigured("consul://:TOKEN@HOST", "the backend URL has a user: Consul knows tokens only")
	}
	if c.prefix, err = c.url.Prefix(c.prefix, defaultPrefix); err != nil {
		return nil, err
	}
	if slices.Contains(strings.Split(c.prefix, "/"), "") { // Consul makes one slash of two
		return nil, backends.Misconfigured("a prefix is like leaderrun or team/leaderrun", "the prefix of the backend URL has an empty part")
	}
	if err := c.setToken(); err != nil {
		return nil, err
	}
	c.tls, err = c.url.Files.Config()
	return c, err
}

// setToken finds the token: in the URL, else where Consul's own programs find it. Nothing else of their
// environment counts: a host that happens to have CONSUL_HTTP_ADDR set would use another store than the rest.
func (c *config) setToken() error {
	c.token = c.url.Login.Password()
	if c.token != "" && c.tokenFile != "" {
		return backends.Misconfigured("keep one of them", "the backend URL has a token and ?token-file=")
	}
	if c.token == "" && c.tokenFile == "" {
		c.tokenFile = os.Getenv(api.HTTPTokenFileEnvName)
	}
	if c.token == "" && c.tokenFile == "" {
		c.token = os.Getenv(api.HTTPTokenEnvName)
	}
	if c.tokenFile == "" {
		return nil
	}
	var err error
	if c.token, err = readToken(c.tokenFile); err != nil {
		return backends.Misconfigured(cmp.Or(ownership.Remedy(err), "?token-file= or CONSUL_HTTP_TOKEN_FILE names a file that holds nothing but the token"), "%w", err)
	}
	return nil
}

// longestToken is far more than a token has, also where it comes from an identity provider.
const longestToken = 64 << 10

// readToken reads a token. One of another user may lead requests into a namespace of theirs, where other leases are.
func readToken(file string) (string, error) {
	held, err := ownership.ReadAny(file, longestToken)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(held))
	if token == "" {
		return "", errors.New("the token file " + file + " is empty")
	}
	return token, nil
}
