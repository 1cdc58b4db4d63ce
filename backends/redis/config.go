package redis

import (
	"crypto/tls"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	defaultPrefix  = "leaderrun"
	defaultLongest = 30 * time.Second
	longestHint    = "?longest-ttl=DURATION in the backend URL raises it, on every host; after the store was lost nobody runs for so long"
	shapes         = "redis://USER:PASSWORD@HOST:PORT/DB, rediss:// (TLS), redis+unix:///SOCKET?db=N, redis+sentinel://HOST,HOST/MASTER/DB, redis+cluster://HOST,HOST"
)

type kind int

const (
	single kind = iota
	sentinel
	cluster
)

// config is what a backend URL says.
type config struct {
	kind           kind
	url            *backendurl.URL
	network        string   // tcp or unix
	addrs          []string // of the server, the Sentinels, or some nodes
	master         string   // Sentinel's name of the master
	user, password string
	db             int
	files          *backendurl.TLSFiles // nil: the URL asks for no TLS
	tls            *tls.Config          // nil: none

	sentinelUser, sentinelPassword string

	prefix   string
	replicas int // how many must acknowledge; -1: as many as were ever seen
	longest  time.Duration
}

var knownOptions = backendurl.Options[config]{
	"prefix": backendurl.Prefix(func(c *config) *string { return &c.prefix }),
	"replicas": {Help: "how many replicas must acknowledge, less than were ever seen", Set: func(c *config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 100 {
			return errors.New("it is not a number from 0 to 100")
		}
		c.replicas = n
		return nil
	}},
	"longest-ttl": {Help: "the longest TTL that is allowed here", Set: func(c *config, v string) (err error) {
		c.longest, err = backendurl.Duration(v)
		return err
	}},
	"db": {
		Help: "the number of the database",
		Fits: func(c *config) bool { return c.network == "unix" },
		Set:  func(c *config, v string) (err error) { c.db, err = database(v); return err },
	},
	"sentinel-user": {
		Help: "user of the Sentinels", Fits: hasSentinels,
		Set: func(c *config, v string) error { c.sentinelUser = v; return nil },
	},
	"sentinel-password": {
		Help: "password of the Sentinels", Secret: true, Fits: hasSentinels,
		Set: func(c *config, v string) error { c.sentinelPassword = v; return nil },
	},
}.WithTLS(func(c *config) *backendurl.TLSFiles { return c.files })

func hasSentinels(c *config) bool { return c.kind == sentinel }

// parseURL reads a backend URL. No error here shows any part of the URL that a password may be in.
func parseURL(raw string) (*config, error) {
	c := &config{network: "tcp", prefix: defaultPrefix, replicas: -1, longest: defaultLongest}
	if !c.setScheme(backendurl.Scheme(raw)) {
		return nil, backends.Misconfigured(shapes, "this is not the URL of a Redis backend")
	}
	u, err := backendurl.Parse(raw, c.form())
	if err != nil {
		return nil, err
	}
	if c.kind == single && len(u.Addrs) > 1 {
		return nil, backends.Misconfigured("redis+sentinel://HOST,HOST/MASTER or redis+cluster://HOST,HOST", "the backend URL has more than one host")
	}
	c.url, c.addrs, c.user, c.password = u, u.Addrs, u.User, u.Password
	if err := c.setPath(u.Path); err != nil {
		return nil, err
	}
	if err := knownOptions.Read(u, c); err != nil {
		return nil, err
	}
	c.tls, err = c.files.Config()
	return c, err
}

func (c *config) setScheme(scheme string) bool {
	switch strings.TrimPrefix(strings.TrimPrefix(scheme, "rediss"), "redis") {
	case "":
	case "+sentinel":
		c.kind = sentinel
	case "+cluster":
		c.kind = cluster
	case "+unix":
		c.network = "unix"
	default:
		return false
	}
	if strings.HasPrefix(scheme, "rediss") {
		c.files = new(backendurl.TLSFiles)
	}
	return strings.HasPrefix(scheme, "redis") && !(c.files != nil && c.network == "unix")
}

func (c *config) form() backendurl.Form {
	switch {
	case c.network == "unix":
		return backendurl.Form{Shapes: "redis+unix:///SOCKET?db=N", Socket: true}
	case c.kind == sentinel:
		return backendurl.Form{Shapes: shapes, Port: "26379"}
	}
	return backendurl.Form{Shapes: shapes, Port: "6379"}
}

func (c *config) setPath(path string) (err error) {
	if c.kind == sentinel {
		var escaped string
		escaped, path, _ = strings.Cut(path, "/")
		if c.master, err = url.PathUnescape(escaped); err != nil || c.master == "" {
			return backends.Misconfigured("redis+sentinel://HOST,HOST/MASTER", "the backend URL does not name the master")
		}
	}
	if path == "" {
		return nil
	}
	if c.kind == cluster {
		return backends.Misconfigured(shapes, "a Redis Cluster has no databases: the backend URL ends after the hosts")
	}
	if c.db, err = database(path); err != nil {
		return backends.Misconfigured(shapes, "the path of the backend URL: %w", err)
	}
	return nil
}

func database(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, errors.New("the database is not a number")
	}
	return n, nil
}

// required is how many replicas must acknowledge a step, when as many as seen were connected at most.
func (c *config) required(seen int) int {
	switch {
	case c.replicas >= 0:
		return c.replicas
	case c.kind != single:
		return max(seen, 1)
	}
	return seen
}

// redacted writes the URL without passwords.
func (c *config) redacted() string {
	u := *c.url
	u.Path = url.PathEscape(c.master)
	if c.db != 0 && c.network == "tcp" {
		u.Path = strings.TrimPrefix(u.Path+"/"+strconv.Itoa(c.db), "/")
	}
	return u.Redacted()
}
