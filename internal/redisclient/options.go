package redisclient

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/redisconn"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// A command has one connection and one context, whose deadline counts.
const ioTimeout = time.Minute

// maxNodes is how many nodes of a Cluster get a client of their own. The Cluster's specification recommends no more.
const maxNodes = 1000

// clusterOptions are those of the client of a Cluster. It makes a client for each node that a server names, whether or not
// it is ever asked: those beyond maxNodes have one, which reaches nobody.
func clusterOptions(t *redisurl.Target, o *redis.UniversalOptions) *redis.ClusterOptions {
	cluster := o.Cluster()
	cluster.DisableRoutingPolicies = true // it would ask for COMMAND first
	// Any of its connections may be asked for the slots, one at a time.
	cluster.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return redisconn.DialCluster(ctx, t, network, addr)
	}
	var nodes atomic.Int32
	nobody := o.Simple()
	nobody.Dialer = func(context.Context, string, string) (net.Conn, error) {
		return nil, notDialed(errors.New("the Cluster names more nodes than one has"))
	}
	beyond := redis.NewClient(nobody)
	cluster.NewClient = func(o *redis.Options) *redis.Client {
		if nodes.Add(1) > maxNodes {
			return beyond
		}
		return redis.NewClient(o)
	}
	return cluster
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
