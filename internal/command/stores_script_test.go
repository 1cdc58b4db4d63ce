package command

import (
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/internal/testserver"
)

// scriptStore is one server for the scripts of testdata/stores, each of which has a world of its own there.
type scriptStore struct {
	name  string
	start func(t *testing.T) running
}

type running struct {
	addr   string
	url    func(world, addr string) string
	vanish func(world, job string) error // takes away the lease of a job
}

var scriptStores = []scriptStore{
	{"kubernetes", func(t *testing.T) running {
		t.Helper()
		s := testserver.SharedKubernetes(t)
		namespace := s.Namespace(t)
		return running{
			addr: s.Addr(),
			url: func(world, addr string) string {
				return "k8s://" + namespace + "/" + world + "?kubeconfig=" + s.KubeconfigAt(t, testserver.KubernetesAdmin, addr)
			},
			vanish: func(world, job string) error {
				_, err := s.TryAPI("PATCH", s.Leases(namespace)+"/"+world+"-"+job, `{"spec":{"holderIdentity":""}}`)
				return err
			},
		}
	}},
	{"zookeeper", func(t *testing.T) running {
		t.Helper()
		s := testserver.ZooKeeper(t, testserver.ZooKeeperOptions{})
		return running{
			addr:   s.Addr(),
			url:    func(world, addr string) string { return "zk://" + addr + "/chroot?prefix=" + world },
			vanish: func(world, job string) error { return s.Delete("/chroot/" + world + "/" + job + "/lease") },
		}
	}},
	{"postgres", func(t *testing.T) running {
		t.Helper()
		s := testserver.Postgres(t, testserver.PostgresOptions{Lines: []string{"fsync = on", "full_page_writes = on"}})
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

// What people do, on each store with a server: the backend is named by LEADERRUN_BACKEND.
func TestStoreScripts(t *testing.T) {
	t.Parallel()
	for _, s := range scriptStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testserver.Require(t, s.name)
			r := s.start(t)
			var worlds atomic.Int32
			p := scriptParams(t, "testdata/stores")
			setup := p.Setup
			p.Setup = func(env *testscript.Env) error {
				world := fmt.Sprintf("world%d", worlds.Add(1))
				env.Setenv("WORLD", world)
				err := setup(env)
				env.Setenv("LEADERRUN_BACKEND", r.url(world, r.addr))
				env.Setenv("LEADERRUN_TTL", (5 * time.Second).String())
				return err
			}
			// at ADDRESS lets the backend be the same store at another address.
			p.Cmds["at"] = func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv("LEADERRUN_BACKEND", r.url(ts.Getenv("WORLD"), args[0]))
			}
			// vanish JOB takes away the lease of a job, as an operator may.
			p.Cmds["vanish"] = func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(r.vanish(ts.Getenv("WORLD"), args[0]))
			}
			testscript.Run(t, p)
		})
	}
}
