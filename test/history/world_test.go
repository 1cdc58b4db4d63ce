package history

import (
	"context"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/consul"
	"github.com/leaderrun/leaderrun/backends/etcd"
	"github.com/leaderrun/leaderrun/backends/file"
	"github.com/leaderrun/leaderrun/backends/kubernetes"
	"github.com/leaderrun/leaderrun/backends/postgres"
	"github.com/leaderrun/leaderrun/backends/redis"
	"github.com/leaderrun/leaderrun/backends/zookeeper"
	"github.com/leaderrun/leaderrun/test/servers"
)

// world is one store with its faults.
type world struct {
	ttl     time.Duration
	expires bool // leases have a TTL; else they end when their holder dies
	lasting bool // and are there until somebody takes them, also after that
	// open returns a new client of the store. Its way to the server is its own; nil: there is no way.
	open   func(t *testing.T) (backends.Driver, *servers.Proxy)
	faults []fault // of the server, one at a time
	teams  int     // how many jobs are contended for at the same time; 0: as many as usual
}

// fault breaks a server and mends it.
type fault func(t *testing.T, random *mathrand.Rand)

// opened closes a driver with its test.
func opened[D backends.Driver](t *testing.T, d D, err error) backends.Driver {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// through returns what opens clients that reach a server through a proxy each.
func through(addr, before, after string, open func(t *testing.T, url string) backends.Driver) func(*testing.T) (backends.Driver, *servers.Proxy) {
	return func(t *testing.T) (backends.Driver, *servers.Proxy) {
		t.Helper()
		p := servers.NewProxy(t, addr)
		return open(t, before+p.Addr()+after), p
	}
}

// freezes stops a server for a while, in which some of its leases run out.
func freezes(ttl time.Duration, stop func(t *testing.T) (resume func())) fault {
	return func(t *testing.T, random *mathrand.Rand) {
		t.Helper()
		defer stop(t)()
		pause(t.Context(), 100*time.Millisecond+time.Duration(random.Int64N(int64(3*ttl/2))))
	}
}

// restarts kills a server and starts it again with its data.
func restarts(s server) fault {
	return func(t *testing.T, _ *mathrand.Rand) {
		t.Helper()
		s.Restart(t, true)
	}
}

type server interface {
	Stop(t testing.TB)
	Cont(t testing.TB)
	Restart(t testing.TB, keepData bool)
}

func process(s server) func(t *testing.T) func() {
	return func(t *testing.T) func() {
		t.Helper()
		s.Stop(t)
		return func() { t.Helper(); s.Cont(t) }
	}
}

func redisWorld(t *testing.T) world {
	t.Helper()
	const ttl = 600 * time.Millisecond
	s := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	return world{
		ttl: ttl, expires: true,
		open: through(s.Addr(), "redis://", "?longest-ttl=600ms", func(t *testing.T, url string) backends.Driver {
			t.Helper()
			d, err := redis.Open(url)
			return opened(t, d, err)
		}),
		faults: []fault{freezes(ttl, process(s)), restarts(s)},
	}
}

func etcdWorld(t *testing.T) world {
	t.Helper()
	const ttl = 2 * time.Second // its shortest
	s := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	return world{
		ttl: ttl, expires: true,
		open: through(s.Endpoint(), "etcd://", "", func(t *testing.T, url string) backends.Driver {
			t.Helper()
			d, err := etcd.Open(url)
			return opened(t, d, err)
		}),
		faults: []fault{freezes(ttl, process(s)), restarts(s)},
	}
}

func consulWorld(t *testing.T) world {
	t.Helper()
	const ttl = time.Second // Consul ends a session after twice of that
	// The shortest would be 10 s otherwise.
	s := servers.Consul(t, servers.ConsulOptions{Config: `session_ttl_min = "500ms"`})
	return world{
		ttl: ttl, expires: true,
		open: through(s.Addr(), "consul://", "", func(t *testing.T, url string) backends.Driver {
			t.Helper()
			d, err := consul.Open(url)
			return opened(t, d, err)
		}),
		faults: []fault{freezes(ttl, process(s)), restarts(s)},
	}
}

func zookeeperWorld(t *testing.T) world {
	t.Helper()
	const ttl = time.Second // the shortest that the ticks of this server allow
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{})
	return world{
		ttl: ttl, expires: true,
		open: through(s.Addr(), "zk://", "", func(t *testing.T, url string) backends.Driver {
			t.Helper()
			d, err := zookeeper.Open(url)
			return opened(t, d, err)
		}),
		faults: []fault{freezes(ttl, process(s)), restarts(s)},
		teams:  fewTeams,
	}
}

func postgresWorld(t *testing.T) world {
	t.Helper()
	const ttl = 600 * time.Millisecond
	s := servers.Postgres(t, servers.PostgresOptions{
		// Whoever has given up a connection to a frozen server leaves a process behind, and comes again.
		Lines: []string{"max_connections = 500"},
		// A password that is proved costs both sides more than all else, and connections do not last here.
		Clients: []string{"host all all 127.0.0.1/32 trust"},
	})
	before, after, _ := strings.Cut(s.URL(), s.Addr())
	return world{
		ttl: ttl, expires: true,
		open: through(s.Addr(), before, after+"&longest-ttl=600ms", func(t *testing.T, url string) backends.Driver {
			t.Helper()
			d, err := postgres.Open(url)
			return opened(t, d, err)
		}),
		faults: []fault{freezes(ttl, process(s)), restarts(s)},
		teams:  fewTeams,
	}
}

// kubernetesWorld has two processes that can be frozen: the server, and the etcd without which it has nothing to say. Nothing
// in Kubernetes ends a Lease.
func kubernetesWorld(t *testing.T) world {
	t.Helper()
	const ttl = time.Second // its shortest
	s := servers.Kubernetes(t, servers.KubernetesOptions{})
	return world{
		ttl: ttl, expires: true, lasting: true,
		open: func(t *testing.T) (backends.Driver, *servers.Proxy) {
			t.Helper()
			p := servers.NewProxy(t, s.Addr())
			d, err := kubernetes.Open("k8s://default?kubeconfig=" + s.KubeconfigAt(t, servers.KubernetesAdmin, p.Addr()))
			return opened(t, d, err), p
		},
		faults: []fault{freezes(ttl, process(s)), restarts(s), freezes(ttl, process(s.Etcd))},
		teams:  fewTeams,
	}
}

// fileWorld has no server. What is frozen is a process in the middle of a step: it has the turn of every job.
func fileWorld(t *testing.T) world {
	t.Helper()
	const ttl = 600 * time.Millisecond
	dir := t.TempDir()
	return world{
		ttl: ttl,
		open: func(t *testing.T) (backends.Driver, *servers.Proxy) {
			t.Helper()
			d, err := file.Open("file://" + dir)
			return opened(t, d, err), nil
		},
		faults: []fault{freezes(ttl, func(t *testing.T) func() { t.Helper(); return turns(t, dir) })},
	}
}

// turns takes the turn of every job there is.
func turns(t *testing.T, dir string) (drop func()) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.beat"))
	if err != nil || len(names) == 0 {
		t.Errorf("no job has a turn to take: %v", err)
	}
	var taken []*os.File
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Errorf("%s: %v", strings.TrimPrefix(name, dir), err)
		}
		taken = append(taken, f)
	}
	return func() {
		for _, f := range taken {
			_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
			_ = f.Close()
		}
	}
}

// disturb breaks the network of one client at random until the context ends, and mends it then. A connection that has
// lost something is cut before it is used again, as TCP would do.
func disturb(ctx context.Context, p *servers.Proxy, random *mathrand.Rand) {
	some := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for ctx.Err() == nil {
		pause(ctx, 100*time.Millisecond+some(2*time.Second))
		switch random.IntN(4) {
		case 0:
			p.DropReplies(true)
		case 1:
			p.DropAll(true)
		case 2:
			p.Delay(some(200 * time.Millisecond))
			pause(ctx, some(time.Second))
			p.Delay(0)
			continue
		case 3:
		}
		pause(ctx, some(700*time.Millisecond))
		p.Cut()
		p.DropAll(false)
	}
}

// disturbAll disturbs every client until the context ends.
func disturbAll(ctx context.Context, proxies []*servers.Proxy, seed uint64) *sync.WaitGroup {
	var all sync.WaitGroup
	for i, p := range proxies {
		all.Go(func() { disturb(ctx, p, mathrand.New(mathrand.NewPCG(seed, uint64(1000+i)))) })
	}
	return &all
}
