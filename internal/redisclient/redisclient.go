// Package redisclient opens a client of Redis from a URL, for commands that are over after one request. The URLs are those of
// the backend, without the options that only a backend has.
package redisclient

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const shapes = "redis://USER:PASSWORD@HOST:PORT/DB, rediss:// (TLS), redis+unix:///SOCKET?db=N, redis+sentinel://HOST,HOST/MASTER/DB, redis+cluster://HOST,HOST"

// Open returns a client that asks nobody yet. It never sends a request a second time: that could be done twice. password is that
// of a server whose URL has none; it may be empty. The errors never show one.
func Open(rawURL, password string) (redis.UniversalClient, error) {
	t, err := parse(withPassword(rawURL, password))
	if err != nil {
		return nil, err
	}
	encryption, err := t.files.Config()
	if err != nil {
		return nil, err
	}
	logging.Disable() // the library writes to stderr, line after line
	o := t.options(encryption)
	switch t.kind {
	case "+cluster":
		cluster := o.Cluster()
		cluster.DisableRoutingPolicies = true // it would ask for COMMAND first
		return redis.NewClusterClient(cluster), nil
	case "+sentinel":
		return redis.NewFailoverClient(o.Failover()), nil
	}
	simple := o.Simple()
	if t.kind == "+unix" {
		simple.Network = "unix"
	}
	return redis.NewClient(simple), nil
}

// target is what a URL says.
type target struct {
	kind   string // what follows redis or rediss in the scheme
	url    *backendurl.URL
	master string // Sentinel's name of the master
	db     int
	files  *backendurl.TLSFiles // nil: no TLS

	sentinelUser, sentinelPassword string
}

var knownOptions = backendurl.Options[target]{
	"db": {
		Help: "the number of the database",
		Fits: func(t *target) bool { return t.kind == "+unix" },
		Set:  func(t *target, v string) (err error) { t.db, err = database(v); return err },
	},
	"sentinel-user": {
		Help: "user of the Sentinels", Fits: hasSentinels,
		Set: func(t *target, v string) error { t.sentinelUser = v; return nil },
	},
	"sentinel-password": {
		Help: "password of the Sentinels", Secret: true, Fits: hasSentinels,
		Set: func(t *target, v string) error { t.sentinelPassword = v; return nil },
	},
}.WithTLS(func(t *target) *backendurl.TLSFiles { return t.files })

func hasSentinels(t *target) bool { return t.kind == "+sentinel" }

func parse(raw string) (*target, error) {
	scheme := backendurl.Scheme(raw)
	t := &target{}
	switch kind, tls := strings.CutPrefix(scheme, "rediss"); {
	case tls:
		t.kind, t.files = kind, new(backendurl.TLSFiles)
	default:
		t.kind = strings.TrimPrefix(scheme, "redis")
	}
	form := backendurl.Form{Shapes: shapes, Port: "6379"}
	switch {
	case t.kind == "":
	case t.kind == "+cluster":
	case t.kind == "+sentinel":
		form.Port = "26379"
	case t.kind == "+unix" && t.files == nil:
		form.Socket = true
	default:
		scheme = ""
	}
	if !strings.HasPrefix(scheme, "redis") {
		return nil, backends.Misconfigured(shapes, "this is not the URL of a Redis server")
	}
	var err error
	if t.url, err = backendurl.Parse(raw, form); err != nil {
		return nil, err
	}
	if t.kind == "" && len(t.url.Addrs) > 1 {
		return nil, backends.Misconfigured("redis+sentinel://HOST,HOST/MASTER or redis+cluster://HOST,HOST", "the URL has more than one host")
	}
	if err := t.setPath(t.url.Path); err != nil {
		return nil, err
	}
	return t, knownOptions.Read(t.url, t)
}

func (t *target) setPath(path string) (err error) {
	if t.kind == "+sentinel" {
		var escaped string
		escaped, path, _ = strings.Cut(path, "/")
		if t.master, err = url.PathUnescape(escaped); err != nil || t.master == "" {
			return backends.Misconfigured("redis+sentinel://HOST,HOST/MASTER", "the URL does not name the master")
		}
	}
	switch {
	case path == "":
	case t.kind == "+cluster":
		return backends.Misconfigured(shapes, "a Redis Cluster has no databases: the URL ends after the hosts")
	default:
		if t.db, err = database(path); err != nil {
			return backends.Misconfigured(shapes, "the path of the URL: %w", err)
		}
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
