package cli_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/test/servers"
)

// scriptStore is one server for the scripts of testdata/stores, each of which has a world of its own there.
type scriptStore struct {
	name  string
	ttl   time.Duration // the shortest that it keeps
	start func(t *testing.T) running
}

type running struct {
	addr   string
	url    func(world, addr string) string
	vanish func(world, job string) error // takes away the lease of a job
}

var scriptStores = []scriptStore{
	{"redis", 5 * time.Second, func(t *testing.T) running {
		t.Helper()
		s := servers.Redis(t, servers.RedisOptions{})
		return running{
			addr:   s.Addr(),
			url:    func(world, addr string) string { return "redis://" + addr + "/0?longest-ttl=5s&prefix=" + world },
			vanish: func(world, job string) error { _, err := s.Try("del", world+":{"+job+"}:lease"); return err },
		}
	}},
	{"etcd", 5 * time.Second, func(t *testing.T) running {
		t.Helper()
		s := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
		return running{
			addr:   s.Endpoint(),
			url:    func(world, addr string) string { return "etcd://" + addr + "/" + world },
			vanish: func(world, job string) error { _, err := s.TryCtl("del", world+"/"+job+"/lease"); return err },
		}
	}},
	{"consul", 10 * time.Second, func(t *testing.T) running {
		t.Helper()
		s := servers.Consul(t, servers.ConsulOptions{})
		return running{
			addr:   s.Addr(),
			url:    func(world, addr string) string { return "consul://" + addr + "/" + world },
			vanish: func(world, job string) error { return endSession(s, world+"/"+job) },
		}
	}},
	{"kubernetes", 5 * time.Second, func(t *testing.T) running {
		t.Helper()
		s := servers.SharedKubernetes(t)
		namespace := s.Namespace(t)
		return running{
			addr: s.Addr(),
			url: func(world, addr string) string {
				return "k8s://" + namespace + "/" + world + "?kubeconfig=" + s.KubeconfigAt(t, servers.KubernetesAdmin, addr)
			},
			vanish: func(world, job string) error {
				_, err := s.TryAPI("PATCH", s.Leases(namespace)+"/"+world+"-"+job, `{"spec":{"holderIdentity":""}}`)
				return err
			},
		}
	}},
	{"zookeeper", 5 * time.Second, func(t *testing.T) running {
		t.Helper()
		s := servers.ZooKeeper(t, servers.ZooKeeperOptions{})
		return running{
			addr:   s.Addr(),
			url:    func(world, addr string) string { return "zk://" + addr + "/chroot?prefix=" + world },
			vanish: func(world, job string) error { return s.Delete("/chroot/" + world + "/" + job + "/lease") },
		}
	}},
	{"postgres", 5 * time.Second, func(t *testing.T) running {
		t.Helper()
		s := servers.Postgres(t, servers.PostgresOptions{Lines: []string{"fsync = on", "full_page_writes = on"}})
		user := url.UserPassword("postgres", s.Password).String()
		return running{
			addr: s.Addr(),
			url: func(world, addr string) string {
				return "postgres://" + user + "@" + addr + "/postgres?sslmode=disable&longest-ttl=5s&prefix=" + world
			},
			vanish: func(world, job string) error {
				_, err := s.Try(fmt.Sprintf(`UPDATE %s SET holder = NULL, token = NULL, until = clock_timestamp() WHERE job = '%s'`, world, job))
				return err
			},
		}
	}},
}

// endSession ends the session that holds the lock of a job.
func endSession(s *servers.ConsulServer, job string) error {
	text, err := s.TryAPI("GET", "/v1/kv/"+job+"/lock", "")
	if err != nil {
		return err
	}
	var held []struct{ Session string }
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return err
	}
	if len(held) != 1 {
		return fmt.Errorf("%s has no lock: %s", job, text)
	}
	_, err = s.TryAPI("PUT", "/v1/session/destroy/"+held[0].Session, "")
	return err
}

// proxyKey is where a script has its proxy.
type proxyKey struct{}

// What people do, on each store with a server: the backend is named by LEADERRUN_BACKEND. PROXY is another address of the
// server, one for each script.
func TestStoreScripts(t *testing.T) {
	t.Parallel()
	for _, s := range scriptStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			servers.Require(t, s.name)
			r := s.start(t)
			var worlds atomic.Int32
			p := scriptParams(t, "testdata/stores")
			setup := p.Setup
			p.Setup = func(env *testscript.Env) error {
				world := fmt.Sprintf("world%d", worlds.Add(1))
				env.Setenv("WORLD", world)
				err := setup(env)
				env.Setenv("LEADERRUN_BACKEND", r.url(world, r.addr))
				env.Setenv("LEADERRUN_TTL", s.ttl.String())
				proxy := servers.NewProxy(t, r.addr)
				env.Values[proxyKey{}] = proxy
				env.Setenv("PROXY", proxy.Addr())
				return err
			}
			// at ADDRESS lets the backend be the same store at another address.
			p.Cmds["at"] = func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv("LEADERRUN_BACKEND", r.url(ts.Getenv("WORLD"), args[0]))
			}
			p.Cmds["silence"] = silenceProxy
			// vanish JOB takes away the lease of a job, as an operator may.
			p.Cmds["vanish"] = func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(r.vanish(ts.Getenv("WORLD"), args[0]))
			}
			testscript.Run(t, p)
		})
	}
}

// silence on: nothing passes PROXY any more, and nobody is told. silence off: whoever dials it anew gets through.
func silenceProxy(ts *testscript.TestScript, _ bool, args []string) {
	proxy, ok := ts.Value(proxyKey{}).(*servers.Proxy)
	if !ok || len(args) != 1 || args[0] != "on" && args[0] != "off" {
		ts.Fatalf("usage: silence on|off")
	}
	proxy.DropAll(args[0] == "on")
	if args[0] == "off" {
		proxy.Cut() // what was dropped is missing in the connections that there are
	}
}
