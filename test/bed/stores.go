package bed

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// The shortest lease of most stores, and of Consul.
const (
	usualTTL  = 5 * time.Second
	consulTTL = 10 * time.Second
)

// The hosts of servers: of one, and of a cluster.
var (
	oneHost    = []string{"s"}
	threeHosts = []string{"m0", "m1", "m2"}
)

// Stores are those on which a bed can be made.
var Stores = []Store{
	{Name: "file", TTL: usualTTL, Peer: &Flock, Start: startFile},
	{Name: "redis", Members: oneHost, TTL: usualTTL, Start: startRedis},
	{Name: "sentinel", Members: threeHosts, TTL: usualTTL, Start: startSentinel},
	{Name: "etcd", Members: oneHost, TTL: usualTTL, Peer: &EtcdctlLock, Start: startEtcd},
	{Name: "etcd3", Members: threeHosts, TTL: usualTTL, Peer: &EtcdctlLock, Start: startEtcdCluster},
	{Name: "consul", Members: oneHost, TTL: consulTTL, Peer: &ConsulLock, Start: startConsul},
	{Name: "consul3", Members: threeHosts, TTL: consulTTL, Peer: &ConsulLock, Start: startConsulCluster},
	{Name: "zookeeper", Members: oneHost, TTL: usualTTL, Start: startZooKeeper},
	{Name: "zookeeper3", Members: threeHosts, TTL: usualTTL, Start: startZooKeeperEnsemble},
	{Name: "kubernetes", Members: oneHost, TTL: usualTTL, Start: startKubernetes},
	{Name: "postgres", Members: oneHost, TTL: usualTTL, Start: startPostgres},
	{Name: "postgres3", Members: threeHosts, TTL: usualTTL, Start: startPostgresReplicas},
}

func startFile(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	d := newDisk(t, "4m")
	return &Running{URL: "file://" + d.dir, Dir: d.dir, Faults: d.full(&site{net: n})}
}

func startRedis(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	d, c, at := newDisk(t, "64m"), newClock(t), n.At("s")
	at.Dir, at.Env = d.dir, c.Environment()
	s := servers.Redis(t, servers.RedisOptions{
		At: at, AppendOnly: true,
		// With "always" the server ends when it cannot write; with "everysec" it may answer before it has written, and lose
		// that when it is killed.
		Lines: []string{"appendfsync no", "auto-aof-rewrite-min-size 4mb"},
	})
	x := siteOf(n, s)
	a := redisAdmin(func(testing.TB) *servers.RedisServer { return s })
	d.strain = func() error {
		_, err := s.Try("set", "filler", strings.Repeat("x", 1<<14))
		return err
	}
	r := x.running("redis://", redisQuery)
	r.Quarantine = usualTTL
	r.Faults = join(x.faultsOfOne(usualTTL), []Fault{x.diskLost(false), x.restored(), x.outOfFiles()},
		a.faults(), c.faults(x), pastLease(usualTTL, d.full(x)...))
	return r
}

var redisQuery = "/?longest-ttl=" + usualTTL.String()

func startSentinel(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	set := servers.SentinelOf(t, onThree(n, func(at servers.At) servers.RedisOptions {
		return servers.RedisOptions{At: at, AppendOnly: true}
	})...)
	x := siteOfMany(n, set.Servers, set.Master, set.Whole, 6*time.Second)
	var sentinels []string
	for _, s := range set.Sentinels {
		sentinels = append(sentinels, s.Addr())
	}
	r := x.runningAt(sentinels, "redis+sentinel://", "/"+set.Name+strings.TrimPrefix(redisQuery, "/"))
	r.Quarantine = usualTTL
	r.Faults = join(x.faultsOfMany(usualTTL), redisAdmin(set.Master).faults(), []Fault{x.failover(set)})
	return r
}

func startEtcd(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	d, at := newDisk(t, "256m"), n.At("s") // a log of two files, 64 MB each
	at.Dir = d.dir
	s := servers.Etcd(t, servers.EtcdOptions{
		At: at, UnsafeNoFsync: true, Args: []string{"--quota-backend-bytes", "33554432", "--auto-compaction-retention", "10m"},
	})
	x := siteOf(n, s)
	a := etcdAdmin(func(testing.TB) *servers.EtcdServer { return s })
	r := x.running("etcd://", "")
	r.Faults = join(x.faultsOfOne(usualTTL), []Fault{x.diskLost(true), x.restored(), x.outOfFiles()},
		pastLease(usualTTL, a.noSpace(x)), a.faults(), d.full(x))
	return r
}

func startEtcdCluster(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	set := servers.EtcdClusterOf(t, onThree(n, func(at servers.At) servers.EtcdOptions {
		return servers.EtcdOptions{At: at, UnsafeNoFsync: true}
	})...)
	x := siteOfMany(n, set.Members, set.Leader, set.Whole, 3*time.Second)
	r := x.running("etcd://", "")
	r.Faults = join(x.faultsOfMany(usualTTL), etcdAdmin(set.Leader).faults())
	return r
}

func startConsul(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	s := servers.Consul(t, servers.ConsulOptions{At: n.At("s")})
	x := siteOf(n, s)
	a := consulAdmin(func(testing.TB) *servers.ConsulServer { return s })
	r := x.running("consul://", "")
	r.Faults = join(x.faultsOfOne(consulTTL), []Fault{x.diskLost(true), x.restored()}, a.faults())
	return r
}

func startConsulCluster(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	set := servers.ConsulClusterOf(t, onThree(n, func(at servers.At) servers.ConsulOptions { return servers.ConsulOptions{At: at} })...)
	x := siteOfMany(n, set.Members, set.Leader, set.Whole, 5*time.Second)
	r := x.running("consul://", "")
	r.Faults = join(x.faultsOfMany(consulTTL), consulAdmin(set.Leader).faults())
	return r
}
