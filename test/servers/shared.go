package servers

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// shared is a server that the tests of this process share while they run beside each other: none runs while nobody has it.
type shared[S, Options any] struct {
	sync.Mutex
	start  func(t testing.TB, o Options) S
	server S
	life   *life
	users  int
}

// of returns the server, which is started, as its options are by default, if nobody has it.
func (x *shared[S, Options]) of(t testing.TB) S {
	t.Helper()
	x.Lock()
	defer x.Unlock()
	if x.users == 0 {
		born := &life{TB: t}
		defer func() {
			if x.users == 0 { // it has not started
				born.end()
			}
		}()
		var o Options
		x.server, x.life = x.start(born, o), born
	}
	x.users++
	t.Cleanup(func() {
		x.Lock()
		defer x.Unlock()
		if x.users--; x.users == 0 {
			x.life.end()
		}
	})
	return x.server
}

var (
	sharedConsul     = shared[*ConsulServer, ConsulOptions]{start: Consul}
	sharedEtcd       = shared[*EtcdServer, EtcdOptions]{start: Etcd}
	sharedKubernetes = shared[*KubernetesServer, KubernetesOptions]{start: Kubernetes}
	sharedPostgres   = shared[*PostgresServer, PostgresOptions]{start: Postgres}
	sharedRedis      = shared[*RedisServer, RedisOptions]{start: Redis}
	sharedZooKeeper  = shared[*ZooKeeperServer, ZooKeeperOptions]{start: ZooKeeper}
)

// SharedConsul returns a Consul that the tests of this process share while they run beside each other. Who asks touches nothing
// but what is below a prefix of its own.
func SharedConsul(t testing.TB) *ConsulServer { t.Helper(); return sharedConsul.of(t) }

// SharedEtcd is SharedConsul for etcd.
func SharedEtcd(t testing.TB) *EtcdServer { t.Helper(); return sharedEtcd.of(t) }

// SharedRedis is SharedConsul for Redis.
func SharedRedis(t testing.TB) *RedisServer { t.Helper(); return sharedRedis.of(t) }

// SharedZooKeeper is SharedConsul for ZooKeeper.
func SharedZooKeeper(t testing.TB) *ZooKeeperServer { t.Helper(); return sharedZooKeeper.of(t) }

// SharedKubernetes returns a Kubernetes that the tests of this process share while they run beside each other. Who
// asks breaks nothing but what is in a namespace of its own.
func SharedKubernetes(t testing.TB) *KubernetesServer { t.Helper(); return sharedKubernetes.of(t) }

// SharedPostgres returns an empty database of a PostgreSQL server that the tests of this process share while they run beside each
// other. Who asks neither stops it nor starts it again, and asks about nobody's connections and locks but those of the database.
func SharedPostgres(t testing.TB) *PostgresServer { t.Helper(); return sharedPostgres.of(t).another(t) }

// life is a test to those who need one to start a server, and ends when it is told, not when the test does.
type life struct {
	testing.TB
	cleanups []func()
}

// Cleanup is that of a test.
func (l *life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// TempDir is that of a test.
func (l *life) TempDir() string { return Dir(l) }

func (l *life) end() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
}

// Outside gives a program that is no test what starts servers: they end when do has returned. A server that cannot be started is
// the error.
func Outside(do func(t testing.TB) error) (err error) {
	o := &outside{}
	defer o.end()
	defer func() {
		if why, failed := recover().(failure); failed {
			err = why
		}
	}()
	return do(o)
}

// outside is a test to those who need one to start a server, without a test around it.
type outside struct{ life }

// failure is what ends an outside.
type failure struct{ error }

// What a server's start asks of a test.
func (o *outside) TempDir() string                 { return Dir(o) }
func (o *outside) Helper()                         {}
func (o *outside) Failed() bool                    { return false }
func (o *outside) Fatal(args ...any)               { panic(failure{errors.New(fmt.Sprint(args...))}) }
func (o *outside) Fatalf(form string, args ...any) { panic(failure{fmt.Errorf(form, args...)}) }
func (o *outside) Skipf(form string, args ...any)  { o.Fatalf(form, args...) }
