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

func startFile(t testing.TB, _ *hosts.Network) *Running {
	t.Helper()
	d := newDisk(t, "4m")
	return &Running{URL: "file://" + d.dir, Dir: d.dir, Faults: d.full(func(testing.TB) error { return nil })}
}

func startRedis(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	const host = "s"
	d, c := newDisk(t, "64m"), newClock(t)
	s := servers.Redis(t, servers.RedisOptions{
		AppendOnly: true, Address: n.Address(host), Netns: n.Name(host), Dir: d.dir, Env: c.Environment(),
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
	r := x.running("redis://", "/?longest-ttl="+usualTTL.String(), s.Port)
	r.Quarantine = usualTTL
	r.Faults = join(x.faultsOfOne(usualTTL), []Fault{x.diskLost(false), x.restored(), x.outOfFiles()},
		a.faults(), c.faults(x.whole), pastLease(usualTTL, d.full(x.whole)...))
	return r
}

func startSentinel(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	var members []servers.RedisOptions
	for _, host := range threeHosts {
		members = append(members, servers.RedisOptions{AppendOnly: true, Address: n.Address(host), Netns: n.Name(host)})
	}
	set := servers.SentinelOf(t, members...)
	var ports []int
	for _, s := range set.Sentinels {
		ports = append(ports, s.Port)
	}
	x := newSite(n, threeHosts, set.Servers, set.Whole)
	x.leader = func(t testing.TB) server { return set.Master(t) }
	x.election = 6 * time.Second
	r := x.running("redis+sentinel://", "/"+set.Name+"?longest-ttl="+usualTTL.String(), ports...)
	r.Quarantine = usualTTL
	r.Faults = join(x.faultsOfMany(usualTTL), redisAdmin(set.Master).faults(), []Fault{x.failover(set)})
	return r
}

func startEtcd(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	const host = "s"
	d := newDisk(t, "256m") // a log of two files, 64 MB each
	s := servers.Etcd(t, servers.EtcdOptions{
		Address: n.Address(host), Netns: n.Name(host), Dir: d.dir, UnsafeNoFsync: true,
		Args: []string{"--quota-backend-bytes", "33554432", "--auto-compaction-retention", "10m"},
	})
	x := siteOf(n, s)
	a := etcdAdmin(func(testing.TB) *servers.EtcdServer { return s })
	r := x.running("etcd://", "", s.Port)
	r.Faults = join(x.faultsOfOne(usualTTL), []Fault{x.diskLost(true), x.restored(), x.outOfFiles()},
		pastLease(usualTTL, a.noSpace(x)), a.faults(), d.full(x.whole))
	return r
}

func startEtcdCluster(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	var members []servers.EtcdOptions
	for _, host := range threeHosts {
		members = append(members, servers.EtcdOptions{Address: n.Address(host), Netns: n.Name(host), UnsafeNoFsync: true})
	}
	set := servers.EtcdClusterOf(t, members...)
	var ports []int
	for _, s := range set.Members {
		ports = append(ports, s.Port)
	}
	x := newSite(n, threeHosts, set.Members, set.Whole)
	x.leader = func(t testing.TB) server { return set.Leader(t) }
	x.election = 3 * time.Second
	r := x.running("etcd://", "", ports...)
	r.Faults = join(x.faultsOfMany(usualTTL), etcdAdmin(set.Leader).faults())
	return r
}

func startConsul(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	const host = "s"
	s := servers.Consul(t, servers.ConsulOptions{Address: n.Address(host), Netns: n.Name(host)})
	x := siteOf(n, s)
	a := consulAdmin(func(testing.TB) *servers.ConsulServer { return s })
	r := x.running("consul://", "", s.Port)
	r.Faults = join(x.faultsOfOne(consulTTL), []Fault{x.diskLost(true), x.restored()}, a.faults())
	return r
}

func startConsulCluster(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	var members []servers.ConsulOptions
	for _, host := range threeHosts {
		members = append(members, servers.ConsulOptions{Address: n.Address(host), Netns: n.Name(host)})
	}
	set := servers.ConsulClusterOf(t, members...)
	var ports []int
	for _, s := range set.Members {
		ports = append(ports, s.Port)
	}
	x := newSite(n, threeHosts, set.Members, set.Whole)
	x.leader = func(t testing.TB) server { return set.Leader(t) }
	x.election = 5 * time.Second
	r := x.running("consul://", "", ports...)
	r.Faults = join(x.faultsOfMany(consulTTL), consulAdmin(set.Leader).faults())
	return r
}
