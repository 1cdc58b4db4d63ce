package servers

import (
	"database/sql"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// served is a server, and how one value is written to it and read from it.
type served struct {
	server interface {
		Stop(t testing.TB)
		Cont(t testing.TB)
		Restart(t testing.TB, keepData bool)
		Answers() error
		Ended() bool
	}
	addr  string
	write func()
	read  func() (string, error)
}

var kinds = map[string]func(t *testing.T) served{
	"redis": func(t *testing.T) served {
		t.Helper()
		s := Redis(t, RedisOptions{AppendOnly: true})
		return served{s, s.Addr(), func() { s.Do(t, "set", "k", "value") }, func() (string, error) {
			got, _ := s.Do(t, "get", "k").(string)
			return got, nil
		}}
	},
	"etcd": func(t *testing.T) served {
		t.Helper()
		s := Etcd(t, EtcdOptions{})
		return served{s, s.Endpoint(), func() { s.Ctl(t, "put", "k", "value") }, func() (string, error) { return s.TryCtl("get", "k") }}
	},
	"consul": func(t *testing.T) served {
		t.Helper()
		s := Consul(t, ConsulOptions{})
		return served{
			s, s.Addr(), func() { s.API(t, "PUT", "/v1/kv/k", "value") },
			func() (string, error) { return s.TryAPI("GET", "/v1/kv/k?raw", "") },
		}
	},
	"zookeeper": func(t *testing.T) served {
		t.Helper()
		s := ZooKeeper(t, ZooKeeperOptions{})
		return served{s, s.Addr(), func() { Eventually(t, "put", func() bool { return s.Put("/k", "value") == nil }) }, func() (string, error) { return s.Get("/k") }}
	},
	"kubernetes": func(t *testing.T) served {
		t.Helper()
		s := Kubernetes(t, KubernetesOptions{})
		path := leasesOf(s.Namespace(t))
		return served{
			s, s.Addr(), func() { s.API(t, "POST", path, `{"metadata":{"name":"k"},"spec":{"holderIdentity":"value"}}`) },
			func() (string, error) { return s.TryAPI("GET", path+"/k", "") },
		}
	},
	"postgres": func(t *testing.T) served {
		t.Helper()
		s := Postgres(t, PostgresOptions{})
		return served{
			s, s.Addr(), func() { s.Do(t, "CREATE TABLE kept AS SELECT 'value'") },
			func() (string, error) { return s.Try("SELECT * FROM kept") },
		}
	},
	"mariadb": func(t *testing.T) served {
		t.Helper()
		s := MariaDB(t, MariaDBOptions{})
		ask := func(query string) (text string, err error) {
			c, err := mysql.NewConnector(s.Config())
			if err != nil {
				return "", err
			}
			db := sql.OpenDB(c)
			defer func() { _ = db.Close() }()
			return text, db.QueryRowContext(t.Context(), query).Scan(&text)
		}
		return served{s, s.Addr(), func() { _, _ = ask("CREATE TABLE kept AS SELECT 'value'") }, func() (string, error) { return ask("SELECT * FROM kept") }}
	},
}

// A server that is frozen does not answer. It is restarted with its data, or without, and ends with its test.
func TestServers(t *testing.T) {
	t.Parallel()
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var x served
			t.Cleanup(func() { // after the server's own
				if x.server == nil {
					return
				}
				if c, err := net.Dial("tcp", x.addr); err == nil {
					_ = c.Close()
					t.Errorf("somebody listens on %s", x.addr)
				}
				if !x.server.Ended() {
					t.Error("the server lives on")
				}
			})
			x = start(t)
			x.write()
			x.server.Stop(t)
			if x.server.Answers() == nil {
				t.Error("it answers although it is frozen")
			}
			x.server.Cont(t)
			Eventually(t, "an answer", func() bool { return x.server.Answers() == nil })
			x.server.Restart(t, true)
			if got, err := x.read(); err != nil || !strings.Contains(got, "value") {
				t.Errorf("restarted with its data: %q, %v", got, err)
			}
			x.server.Restart(t, false)
			if got, err := x.read(); strings.Contains(got, "value") {
				t.Errorf("restarted without its data: %q, %v", got, err)
			}
		})
	}
}

// Tests beside each other share a server, which ends with the last of them.
//
//nolint:tparallel // one within the other
func TestShared(t *testing.T) {
	t.Parallel()
	var first *RedisServer
	t.Run("while one has it", func(t *testing.T) {
		first = SharedRedis(t)
		t.Run("another one gets the same", func(t *testing.T) {
			if SharedRedis(t) != first {
				t.Error("it is another one")
			}
		})
		if err := first.Answers(); err != nil {
			t.Errorf("the test that has ended was not the last: %v", err)
		}
	})
	if first != nil && !first.Ended() {
		t.Error("the server lives on")
	}
}
