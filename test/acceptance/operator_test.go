package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// atOnce is how soon a run ends whose lease of longTTL an operator takes away: it is told. Without a watch it would find out
// with its first renewal, fifteen seconds after it has begun.
const atOnce = 8 * time.Second

var etcdFaults = []fault[*servers.EtcdServer]{
	{
		name: "lease revoked", code: 75, within: atOnce,
		strike: func(b *bed, s *servers.EtcdServer, _ *wrapper) {
			var kv struct{ KVs []struct{ Lease int64 } }
			text := s.Ctl(b.t, "get", "leaderrun/job/lease", "-w", "json")
			if err := json.Unmarshal([]byte(text), &kv); err != nil || len(kv.KVs) != 1 {
				b.t.Fatalf("%v: %s", err, text)
			}
			s.Ctl(b.t, "lease", "revoke", fmt.Sprintf("%x", kv.KVs[0].Lease))
		},
	},
	{
		name: "lease deleted", code: 75, within: atOnce,
		strike: func(b *bed, s *servers.EtcdServer, _ *wrapper) { s.Ctl(b.t, "del", "leaderrun/job/lease") },
	},
}

func TestFaultsOnEtcd(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, f := range etcdFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := servers.Etcd(t, servers.EtcdOptions{})
			b := newBed(t, s.URL())
			if f.within != 0 {
				b.ttl = longTTL
			}
			strike(b, s, f)
		})
	}
}

var consulFaults = []fault[*servers.ConsulServer]{
	{
		name: "session destroyed", code: 75, within: atOnce,
		strike: func(b *bed, s *servers.ConsulServer, _ *wrapper) { destroySession(b, s) },
	},
	{
		name: "lock deleted", code: 75, within: atOnce,
		strike: func(b *bed, s *servers.ConsulServer, _ *wrapper) {
			s.API(b.t, "DELETE", "/v1/kv/leaderrun/job/lock", "")
		},
	},
	{
		name: "lock deleted and session destroyed", code: 75, within: atOnce,
		strike: func(b *bed, s *servers.ConsulServer, _ *wrapper) {
			session := sessionOf(b, s)
			s.API(b.t, "DELETE", "/v1/kv/leaderrun/job/lock", "")
			s.API(b.t, "PUT", "/v1/session/destroy/"+session, "")
		},
	},
	{
		name: "lock released", code: 75, within: atOnce,
		strike: func(b *bed, s *servers.ConsulServer, _ *wrapper) {
			s.API(b.t, "PUT", "/v1/kv/leaderrun/job/lock?release="+sessionOf(b, s), "")
		},
	},
}

func sessionOf(b *bed, s *servers.ConsulServer) string {
	b.t.Helper()
	var kv []struct{ Session string }
	text := s.API(b.t, "GET", "/v1/kv/leaderrun/job/lock", "")
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&kv); err != nil || len(kv) != 1 || kv[0].Session == "" {
		b.t.Fatalf("%v: %s", err, text)
	}
	return kv[0].Session
}

func destroySession(b *bed, s *servers.ConsulServer) {
	b.t.Helper()
	s.API(b.t, "PUT", "/v1/session/destroy/"+sessionOf(b, s), "")
}

func TestFaultsOnConsul(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, f := range consulFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := servers.Consul(t, servers.ConsulOptions{})
			b := newBed(t, s.URL())
			b.ttl = 10 * time.Second // Consul keeps no shorter session
			if f.within != 0 {
				b.ttl = longTTL
			}
			strike(b, s, f)
		})
	}
}
