// Package redisclient opens a client of Redis from a URL, for commands that are over after one request. The URLs are those of
// the backend, without the options that only a backend has.
package redisclient

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leaderrun/leaderrun/internal/redisconn"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// Open returns a client that asks nobody yet. It never sends a request a second time: that could be done twice. password is that
// of a server whose URL has none; it may be empty. The errors never show one.
func Open(rawURL, password string) (redis.UniversalClient, error) {
	var t redisurl.Target
	t.DefaultPassword = password
	if err := redisurl.Parse(rawURL, &t, func(t *redisurl.Target) *redisurl.Target { return t }, nil); err != nil {
		return nil, err
	}
	logging.Disable() // the library writes to stderr, line after line
	o := redisconn.Options(&t, ioTimeout)
	if t.Kind == redisurl.Cluster {
		return redis.NewClusterClient(clusterOptions(&t, o)), nil
	}
	simple := o.Simple()
	simple.Network = t.Network
	if t.Kind == redisurl.Sentinel {
		simple.Dialer = masterDialer(&t)
	}
	return redis.NewClient(simple), nil
}
