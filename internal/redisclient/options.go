package redisclient

import (
	"context"
	"errors"
	"net"
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
