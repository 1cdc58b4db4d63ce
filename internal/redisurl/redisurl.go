// Package redisurl reads the URLs that say where a Redis is: those of backends, and those of commands that need one.
package redisurl

import (
	"cmp"
	"crypto/tls"
	"errors"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

// Shapes are examples of the URLs, for hints.
const Shapes = "redis://USER:PASSWORD@HOST:PORT/DB, rediss:// (TLS), redis+unix:///SOCKET?db=N, redis+sentinel://HOST,HOST/MASTER/DB, redis+cluster://HOST,HOST"

// Kind is how several servers of Redis are one store.
type Kind int

// Single is one server, and what its replicas copy.
const (
	Single Kind = iota
	Sentinel
	Cluster
)

// Target is what a URL says. Its addresses are those of the server, of the Sentinels, or of some nodes of the Cluster.
type Target struct {
	backendurl.URL

	Kind    Kind
	Network string // tcp or unix
	Master  string // Sentinel's name of the master
	DB      int
	TLS     *tls.Config // nil: none

	SentinelUser, SentinelPassword string

	DefaultPassword string // of a URL that has none; "": none. It is set before Parse
}

var form = backendurl.Form{
	Of:     "a Redis server",
	Shapes: Shapes,
	Schemes: map[string]backendurl.Scheme{
		"redis": {Port: "6379"}, "redis+unix": {Socket: true}, "redis+sentinel": {Port: "26379"}, "redis+cluster": {Port: "6379"},
		"rediss": {Port: "6379", TLS: true}, "rediss+sentinel": {Port: "26379", TLS: true}, "rediss+cluster": {Port: "6379", TLS: true},
	},
	PasswordAlone: true,
}

// Parse reads a URL into the Target of a C, and what its options say into the C. The errors are *backends.PermanentError, and show no part of the URL that a password may be in.
func Parse[C any](raw string, c *C, of func(c *C) *Target, own backendurl.Options[C]) error {
	t := of(c)
	f := form
	f.UserAlone = t.DefaultPassword != ""
	t.setKind(backendurl.SchemeOf(raw))
	all := options(of)
	maps.Copy(all, own)
	u, err := backendurl.Read(raw, f, all, c)
	if err != nil {
		return err
	}
	t.URL = *u
	t.Login = backendurl.NewLogin(t.Login.User(), cmp.Or(t.Login.Password(), t.DefaultPassword))
	if t.Kind == Single && len(t.Addrs) > 1 {
		return backends.Misconfigured("redis+sentinel://HOST,HOST/MASTER or redis+cluster://HOST,HOST", "the URL has more than one host")
	}
	if err := t.setPath(t.Path); err != nil {
		return err
	}
	t.TLS, err = t.Files.Config()
	return err
}

func (t *Target) setKind(scheme string) {
	t.Network = "tcp"
	switch _, kind, _ := strings.Cut(scheme, "+"); kind {
	case "sentinel":
		t.Kind = Sentinel
	case "cluster":
		t.Kind = Cluster
	case "unix":
		t.Network = "unix"
	}
}

func (t *Target) setPath(path string) (err error) {
	if t.Kind == Sentinel {
		var escaped string
		escaped, path, _ = strings.Cut(path, "/")
		if t.Master, err = url.PathUnescape(escaped); err != nil || t.Master == "" {
			return backends.Misconfigured("redis+sentinel://HOST,HOST/MASTER", "the URL does not name the master")
		}
	}
	if path == "" {
		return nil
	}
	if t.Kind == Cluster {
		return backends.Misconfigured(Shapes, "a Redis Cluster has no databases: the URL ends after the hosts")
	}
	if t.DB, err = database(path); err != nil {
		return backends.Misconfigured(Shapes, "the path of the URL: %w", err)
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

// options are those that every URL of a Redis may have.
func options[C any](of func(c *C) *Target) backendurl.Options[C] {
	isKind := func(k Kind) func(c *C) bool { return func(c *C) bool { return of(c).Kind == k } }
	return backendurl.Options[C]{
		"db": {
			Help: "the number of the database",
			Fits: func(c *C) bool { return of(c).Network == "unix" },
			Set:  func(c *C, v string) (err error) { of(c).DB, err = database(v); return err },
		},
		"sentinel-user": {
			Help: "user of the Sentinels", Fits: isKind(Sentinel),
			Set: func(c *C, v string) error { of(c).SentinelUser = v; return nil },
		},
		"sentinel-password": {
			Help: "password of the Sentinels", Secret: true, Fits: isKind(Sentinel),
			Set: func(c *C, v string) error { of(c).SentinelPassword = v; return nil },
		},
	}
}

// Redacted writes the URL without passwords.
func (t *Target) Redacted() string {
	u := t.URL
	u.Path = url.PathEscape(t.Master)
	if t.DB != 0 && t.Network == "tcp" {
		u.Path = strings.TrimPrefix(u.Path+"/"+strconv.Itoa(t.DB), "/")
	}
	return u.Redacted()
}
