package redisconn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// Options are those of a client of t with one connection, and with every retry and every request of the library's own off. A
// read or a write takes no longer than limit, nor than its context.
func Options(t *redisurl.Target, limit time.Duration) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: t.Addrs, DB: t.DB,
		CredentialsProvider: t.Login.Get,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return Dial(ctx, t, network, addr)
		},
		Protocol:                 2,
		MaxRetries:               -1, // 0 would be 3: a claim would run twice
		MaxRedirects:             -1, // on a Cluster they are retries too
		DialerRetries:            1,
		DialTimeout:              DialTimeout,
		ReadTimeout:              limit,
		WriteTimeout:             limit,
		ContextTimeoutEnabled:    true,
		PoolSize:                 1,
		ReadBufferSize:           4096,
		WriteBufferSize:          4096,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Guide are the options of a client of one of the servers that know where the masters of t are. Sentinels have a user and
// password of their own.
func Guide(t *redisurl.Target, addr string, limit time.Duration) *redis.Options {
	o := Options(t, limit).Simple()
	o.Addr = addr
	if t.Kind == redisurl.Sentinel {
		o.DB, o.Username, o.Password, o.CredentialsProvider = 0, t.SentinelUser, t.SentinelPassword, nil
	}
	return o
}

// Master asks a Sentinel where the master of t is. The error is redis.Nil if it knows no such one.
func Master(ctx context.Context, sentinel *redis.Client, t *redisurl.Target) (string, error) {
	words, err := sentinel.Do(ctx, "sentinel", "get-master-addr-by-name", t.Master).StringSlice()
	switch {
	case err != nil:
		return "", err
	case len(words) != 2:
		return "", errors.New("its answer is not an address")
	}
	return net.JoinHostPort(words[0], words[1]), nil
}
