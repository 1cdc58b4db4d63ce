package etcd

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func examine(t *testing.T, url string, ttl time.Duration) suite.Findings {
	t.Helper()
	return suite.Examined(t, open(t, url).Examine(t.Context(), ttl), "sesame")
}

const aMoment = 15 * time.Second

func TestExamine(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	e := examine(t, s.URL(), aMoment)
	e.Expect(t, checkup.Reachable, backends.Fine, s.Endpoint())
	e.Expect(t, "cluster", backends.Fine, "")
	e.Expect(t, "version", backends.Fine, "no fault")
	e.Expect(t, "leader", backends.Fine, "")
	e.Expect(t, "members", backends.Warning, "one")
	e.Expect(t, "alarms", backends.Fine, "")
	e.Expect(t, "size", backends.Fine, "of 2048 MB")
	e.Expect(t, checkup.Rights, backends.Fine, "leaderrun/")
	e.Expect(t, "leases", backends.Fine, "2s")
	if out := s.Ctl(t, "get", "--prefix", "", "--keys-only"); strings.TrimSpace(out) != "" {
		t.Errorf("keys were left behind: %s", out)
	}
	if out := s.Ctl(t, "lease", "list"); !strings.Contains(out, "found 0 leases") {
		t.Errorf("leases were left behind: %s", out)
	}
	examine(t, s.URL(), time.Second).Expect(t, "leases", backends.Warning, "becomes")
}

func TestExamineACluster(t *testing.T) {
	t.Parallel()
	set := servers.EtcdCluster(t, 3)
	set.Agreed(t)
	e := examine(t, set.URL(), aMoment)
	e.Expect(t, "members", backends.Fine, "3, of which 1 may fail")
	e.Expect(t, "leader", backends.Fine, "")
	examine(t, set.Members[0].URL(), aMoment).Expect(t, "members", backends.Warning, "1 of 3")

	set.Members[0].Kill()
	e = examine(t, set.URL(), aMoment)
	e.Expect(t, checkup.Reachable, backends.Warning, set.Members[0].Endpoint())
	e.Expect(t, checkup.Reachable, backends.Fine, set.Members[1].Endpoint())

	set.Members[1].Kill()
	servers.Eventually(t, "the last one has no leader", func() bool {
		return slices.ContainsFunc(examine(t, set.URL(), aMoment)[checkup.Reachable], func(f backends.Finding) bool {
			return f.Grade == backends.Bad && strings.Contains(f.Why, "no leader") && f.Remedy == leaderless
		})
	})
}

// Members of two clusters in one URL: each would give the job to somebody.
func TestExamineTwoClusters(t *testing.T) {
	t.Parallel()
	a := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	b := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	examine(t, "etcd://"+a.Endpoint()+","+b.Endpoint(), aMoment).Expect(t, "cluster", backends.Bad, "2 clusters")
}

func TestExamineRights(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true, Password: "sesame-street"})
	for name, right := range map[string]string{"enough": "readwrite", "reader": "read", "writer": "write"} {
		s.Ctl(t, "role", "add", name)
		s.Ctl(t, "role", "grant-permission", name, right, "--prefix", "leaderrun/")
		s.Ctl(t, "user", "add", name, "--new-user-password", "sesame-"+name)
		s.Ctl(t, "user", "grant-role", name, name)
	}
	as := func(user string) string { return "etcd://" + user + ":sesame-" + user + "@" + s.Endpoint() }
	examine(t, as("enough"), aMoment).Expect(t, checkup.Rights, backends.Fine, "")
	for _, user := range []string{"reader", "writer"} {
		e := examine(t, as(user), aMoment)
		e.Expect(t, checkup.Rights, backends.Bad, "permission denied")
		if f := e[checkup.Rights]; len(f) != 1 || !strings.Contains(f[0].Remedy, "grant-permission") {
			t.Errorf("%s: %+v", user, f)
		}
	}
	examine(t, as("enough")+"/other", aMoment).Expect(t, checkup.Rights, backends.Bad, "permission denied")
	examine(t, "etcd://enough:not-sesame@"+s.Endpoint(), aMoment).Expect(t, checkup.Reachable, backends.Bad, "authentication failed")
	e := examine(t, s.URL(), aMoment)
	if f := slices.Concat(e[checkup.Reachable], e[checkup.Rights]); !slices.ContainsFunc(f, func(f backends.Finding) bool { return f.Grade == backends.Bad }) {
		t.Errorf("nobody has no rights: %+v", e)
	}
	if out := s.Ctl(t, "get", "--prefix", "", "--keys-only"); strings.TrimSpace(out) != "" {
		t.Errorf("keys were left behind: %s", out)
	}
}

// A database that has reached its quota takes no writes.
func TestExamineNoSpace(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true, Args: []string{"--quota-backend-bytes", "4000000"}})
	d := open(t, s.URL())
	value := bytes.Repeat([]byte("x"), 1_000_000)
	servers.Eventually(t, "the quota is reached", func() bool {
		_, err := d.store.client.Txn(t.Context(), rpc.Txn{Then: []rpc.Op{{Put: &rpc.Put{Key: []byte("big"), Value: value}}}})
		return err != nil
	})
	examine(t, s.URL(), aMoment).Expect(t, "alarms", backends.Bad, "NOSPACE")
}

// What no server of these tests has.
func TestExamineWhatMembersSay(t *testing.T) {
	t.Parallel()
	grades := func(ttl time.Duration, members ...rpc.Status) suite.Findings {
		x := &examination{}
		for _, m := range members {
			x.up = append(x.up, &examined{Status: m, addr: "h"})
		}
		x.versions(ttl)
		x.leader()
		x.alarms()
		x.size()
		all := suite.Findings{}
		for _, f := range x.Findings {
			all[f.What] = append(all[f.What], f)
		}
		return all
	}
	old := rpc.Status{Version: "3.4.23", Leader: 1, Committed: 5000, Applied: 5000, Size: 1 << 30}
	e := grades(6*time.Minute, old)
	if len(e["version"]) != 3 {
		t.Errorf("3.4.23 has three faults: %+v", e["version"])
	}
	e.Expect(t, "checkpoints", backends.Warning, "anew")
	grades(aMoment, rpc.Status{Version: "3.3.27"}).Expect(t, "version", backends.Bad, "too old")
	grades(aMoment, rpc.Status{Size: 1900 << 20}).Expect(t, "size", backends.Warning, "of 2048 MB") // that is the default
	grades(aMoment, rpc.Status{Size: 1900 << 20, Quota: 8 << 30}).Expect(t, "size", backends.Fine, "of 8192 MB")
	other := rpc.Status{Version: "3.6.16", Leader: 2, Committed: 9000, Applied: 9000, Errors: []string{"memberID:7 alarm:CORRUPT "}}
	e = grades(aMoment, old, other)
	e.Expect(t, "leader", backends.Warning, "different")
	e.Expect(t, "log", backends.Warning, "4000 entries")
	e.Expect(t, "alarms", backends.Bad, "CORRUPT")
	e.Expect(t, "version", backends.Fine, "3.6.16")
	e.Expect(t, "version", backends.Warning, "3.4.23")
}
