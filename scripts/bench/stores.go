package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// store is a kind of server to measure with.
type store struct {
	name  string
	needs []string // programs
	// start starts a server as its defaults are but for what a comment names, and returns its URL for leaderrun, and its address.
	start    func(t testing.TB) (url, addr string)
	peerName string // of the program that people use with it; "": none
	peer     func(addr string) (way, error)
	early    int // runs that do not count, until the server is as fast as one that has run for long
}

var stores = []store{
	redisStore,
	{
		name: "etcd", needs: []string{"etcd", "etcdctl"},
		start: func(t testing.TB) (url, addr string) {
			s := servers.Etcd(t, servers.EtcdOptions{})
			return "etcd://" + s.Endpoint(), s.Endpoint()
		},
		peerName: "etcdctl lock",
		peer: func(addr string) (way, error) {
			path, err := program("etcdctl")
			queue := func(job string) []string { return []string{path, "--endpoints", addr, "lock", "peer-" + job} }
			return way{run: queue("bench"), queue: queue}, err
		},
	},
	{
		name: "Consul", needs: []string{"consul"},
		start: func(t testing.TB) (url, addr string) {
			s := servers.Consul(t, servers.ConsulOptions{})
			return s.URL(), s.Addr()
		},
		peerName: "consul lock",
		peer: func(addr string) (way, error) {
			path, err := program("consul")
			queue := func(job string) []string {
				return []string{path, "lock", "-http-addr=" + addr, "-shell=false", "peer-" + job}
			}
			return way{run: queue("bench"), queue: queue}, err
		},
	},
	{
		name: "PostgreSQL", needs: []string{"initdb", "postgres", "psql"},
		start: func(t testing.TB) (url, addr string) {
			s := servers.Postgres(t, servers.PostgresOptions{
				Lines:   []string{"fsync = on", "full_page_writes = on", "shared_buffers = 128MB", "autovacuum = on"},
				Clients: []string{"host all all 127.0.0.1/32 trust"}, // nobody on this host is asked for a password
			})
			return s.URL() + "&longest-ttl=15s", s.Addr()
		},
		peerName: "psql advisory lock", peer: psqlWay,
	},
	// No wrapper is in common use with ZooKeeper, and none with Kubernetes: its own clients elect leaders inside a program.
	{
		name: "ZooKeeper", needs: []string{"java"}, early: 300,
		start: func(t testing.TB) (url, addr string) {
			s := servers.ZooKeeper(t, servers.ZooKeeperOptions{TickTime: 2 * time.Second, Lines: []string{"forceSync=yes", "preAllocSize=65536"}})
			return s.URL(), s.Addr()
		},
	},
	{
		name: "Kubernetes", needs: []string{"kube-apiserver", "etcd"},
		start: func(t testing.TB) (url, addr string) {
			s := servers.Kubernetes(t, servers.KubernetesOptions{Etcd: []string{"--unsafe-no-fsync=false"}})
			return s.URL(t), s.Addr()
		},
	},
}

var redisStore = store{name: "Redis", needs: []string{"redis-server"}, start: func(t testing.TB) (url, addr string) {
	s := servers.Redis(t, servers.RedisOptions{})
	return "redis://" + s.Addr() + "/?longest-ttl=15s", s.Addr()
}}

// missing returns what of a store's programs is not installed.
func (s store) missing() error {
	for _, name := range s.needs {
		if _, err := servers.Binary(name); err != nil {
			return err
		}
	}
	return nil
}

// The lines of shell that people write, with an advisory lock in place of a lease: a session of psql holds it until the
// command has ended. psql is $0, the server $1, and the command is the rest.
const (
	// A lock that is taken leaves the command out.
	psqlTries = `psql=$0 server=$1; shift; exec "$psql" -qX "$server" <<END
SELECT pg_try_advisory_lock(hashtext('%s')) AS mine \gset
\if :mine
\! exec $*
\endif
END`
	psqlWaits = `psql=$0 server=$1; shift; exec "$psql" -qX -o /dev/null "$server" \
-c "SELECT pg_advisory_lock(hashtext('%s'))" -c "\! exec $*"`
)

func psqlWay(addr string) (way, error) {
	psql, err := program("psql")
	line := func(shape, job string) []string {
		return []string{"sh", "-c", fmt.Sprintf(shape, job), psql, "postgres://postgres@" + addr + "/postgres?sslmode=disable"}
	}
	return way{
		run:   line(psqlTries, "bench"),
		queue: func(job string) []string { return line(psqlWaits, job) },
	}, err
}

// program returns the path of a program that is measured. Debian's psql of PATH is a script that looks for the one that is beside
// initdb, for longer than that one takes.
func program(name string) (string, error) {
	if initdb, err := servers.Binary("initdb"); err == nil && name == "psql" {
		return filepath.Join(filepath.Dir(initdb), name), nil
	}
	return servers.Binary(name)
}
