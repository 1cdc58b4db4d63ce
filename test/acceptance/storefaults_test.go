package acceptance

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/servers"
)

// atOnce is how soon a run ends whose lease of longTTL an operator takes away: it is told. Without a watch it would find out
// with its first renewal, fifteen seconds after it has begun.
const atOnce = 10 * time.Second

// operators start a store, and take the lease of the bed's job away by the store's own means.
var operators = map[string]func(t *testing.T) (url string, ttl time.Duration, take func()){
	"redis": func(t *testing.T) (string, time.Duration, func()) {
		t.Helper()
		s := servers.Redis(t, servers.RedisOptions{})
		return redisURL(s, ttl), ttl, func() { s.Do(t, "DEL", "leaderrun:{job}:lease") }
	},
	"etcd": func(t *testing.T) (string, time.Duration, func()) {
		t.Helper()
		s := servers.Etcd(t, servers.EtcdOptions{})
		return s.URL(), longTTL, func() { s.Ctl(t, "del", "leaderrun/job/lease") }
	},
	"consul": func(t *testing.T) (string, time.Duration, func()) {
		t.Helper()
		s := servers.Consul(t, servers.ConsulOptions{})
		return s.URL(), longTTL, func() { s.API(t, "DELETE", "/v1/kv/leaderrun/job/lock", "") }
	},
	"zookeeper": func(t *testing.T) (string, time.Duration, func()) {
		t.Helper()
		s := servers.ZooKeeper(t, servers.ZooKeeperOptions{MaxSessionTimeout: longTTL})
		return s.URL(), longTTL, func() { s.MustDelete(t, "/leaderrun/job/lease") }
	},
	"kubernetes": func(t *testing.T) (string, time.Duration, func()) {
		t.Helper()
		s := servers.SharedKubernetes(t)
		namespace := s.Namespace(t)
		take := func() { s.API(t, "PATCH", s.Leases(namespace)+"/leaderrun-job", `{"spec":{"holderIdentity":""}}`) }
		return s.URLOf(t, namespace, servers.KubernetesAdmin), longTTL, take
	},
	"postgres": func(t *testing.T) (string, time.Duration, func()) {
		t.Helper()
		s := servers.Postgres(t, servers.PostgresOptions{})
		take := func() { s.Do(t, "UPDATE leaderrun SET holder = NULL, token = NULL WHERE job = 'job'") }
		return s.URL() + "&longest-ttl=" + ttl.String(), ttl, take
	},
}

// A run whose lease an operator has taken away is dead in time, and a standby takes over.
func TestLeaseTakenAway(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for name, start := range operators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ttl, take := start(t)
			b := newBed(t, url)
			b.ttl = ttl
			strike(b, take, fault[func()]{
				code: 75, within: min(ttl, atOnce), strike: func(_ *bed, take func(), _ *wrapper) { take() },
			})
		})
	}
}

// A run whose store falls silent, or whose replies are lost, is dead within its lease, and a standby that still reaches the store
// takes over.
func TestStoreFallsSilent(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for name, drop := range map[string]func(p *servers.Proxy){
		"both ways":        func(p *servers.Proxy) { p.DropAll(true) },
		"only the replies": func(p *servers.Proxy) { p.DropReplies(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range stores[1:] { // a folder does not fall silent
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					addr, url := s.start(t)
					proxy := servers.NewProxy(t, addr)
					b := newBed(t, url(proxy.Addr()))
					b.ttl = s.ttl
					w := b.holder()
					old := b.last()
					b.backend = url(addr)
					standby := b.start(nil, "--wait", "forever")
					drop(proxy)
					struck := boottime.Now()
					if code := w.wait(); code != 75 {
						t.Errorf("exit code %d, want 75: %s", code, w.said())
					}
					for _, span := range b.verdict() {
						if lived := span.lived(struck); span.token == old.token && lived >= b.ttl {
							t.Errorf("the run lived on for %v", lived)
						}
					}
					gone(t, old)
					b.beats(standby, old.token)
				})
			}
		})
	}
}
