package redisclient

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// A command has one connection and one context, whose deadline counts.
const (
	dialTimeout = 5 * time.Second
	ioTimeout   = time.Minute
)

// options are those of a client with everything off that the library does by itself.
func options(t *redisurl.Target) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: t.Addrs, MasterName: t.Master, DB: t.DB,
		Username: t.User, Password: t.Password,
		SentinelUsername: t.SentinelUser, SentinelPassword: t.SentinelPassword,
		TLSConfig:                t.TLS,
		Protocol:                 2,
		MaxRetries:               -1, // 0 would be 3
		MaxRedirects:             -1, // on a Cluster they are retries too
		DialerRetries:            1,
		DialTimeout:              dialTimeout,
		ReadTimeout:              ioTimeout,
		WriteTimeout:             ioTimeout,
		ContextTimeoutEnabled:    true,
		PoolSize:                 1,
		ReadBufferSize:           4096,
		WriteBufferSize:          4096,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// withPassword puts a password into a URL that has none.
func withPassword(raw, password string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || password == "" {
		return raw
	}
	hosts := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		hosts = rest[:i]
	}
	user := ""
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		user, rest = hosts[:i], rest[i+1:]
	}
	name, own, _ := strings.Cut(user, ":")
	return scheme + "://" + name + ":" + cmp.Or(own, url.PathEscape(password)) + "@" + rest
}
