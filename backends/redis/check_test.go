package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func examine(t *testing.T, url string) suite.Findings {
	t.Helper()
	return findings(t, open(t, url))
}

func findings(t *testing.T, d *backends.Engine) suite.Findings {
	t.Helper()
	return suite.Examined(t, d.Examine(t.Context(), 15*time.Second), "sesame")
}

func redisURL(s *servers.RedisServer) string { return "redis://" + s.Addr() }

func TestExamine(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	url := redisURL(s) + "?longest-ttl=200ms"
	e := examine(t, url)
	e.Expect(t, checkup.Reachable, backends.Fine, s.Addr())
	e.Expect(t, "version", backends.Fine, "Redis "+s.Info(t, "server", "redis_version"))
	e.Expect(t, "role", backends.Fine, "master")
	e.Expect(t, "persistence", backends.Fine, "append-only")
	e.Expect(t, "eviction", backends.Fine, "noeviction")
	e.Expect(t, "replicas", backends.Fine, "none")
	e.Expect(t, checkup.Rights, backends.Fine, "all")
	e.Expect(t, checkup.Clock, backends.Fine, "this host's")
	if keys := s.Do(t, "dbsize"); keys != int64(0) {
		t.Errorf("%v keys were left behind", keys)
	}
}

// What a mark says of other hosts and of a server that is in quarantine.
func TestExamineTheMark(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	_, _, mark := keys("job")
	s.Do(t, "flushall") // from now on nobody is granted until a claim has come
	s.Do(t, "hset", mark, "identity", "another:server", "replicas", 0, "longest", 60000, "until", 0, "evicted", 0)
	before := s.Do(t, "hgetall", mark)
	e := examine(t, redisURL(s))
	e.Expect(t, "quarantine", backends.Warning, "nobody is granted")
	e.Expect(t, "longest-ttl", backends.Warning, "1m0s")
	e.Expect(t, "persistence", backends.Warning, "forgets")
	if after := s.Do(t, "hgetall", mark); len(after.([]any)) != len(before.([]any)) || s.Do(t, "hget", mark, "identity") != "another:server" {
		t.Errorf("the mark was changed: %v", after)
	}
}

func TestExamineEviction(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	for _, c := range []struct {
		name, policy, limit string
		grade               backends.Grade
		say                 string
	}{
		{"records may go", "allkeys-lru", "100mb", backends.Bad, "forgets ticks"},
		{"leases may go", "volatile-lru", "100mb", backends.Bad, "ends their runs"},
		{"not yet", "allkeys-lru", "0", backends.Warning, "no maxmemory yet"},
		{"full", "noeviction", "1mb", backends.Warning, "with none left nothing is granted"},
		{"fine", "noeviction", "100mb", backends.Fine, "noeviction"},
	} {
		s.Do(t, "config", "set", "maxmemory-policy", c.policy)
		s.Do(t, "config", "set", "maxmemory", c.limit)
		t.Log(c.name)
		examine(t, redisURL(s)).Expect(t, "eviction", c.grade, c.say)
	}
}

func TestExamineAReplica(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	master := servers.Redis(t, servers.RedisOptions{})
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: master})
	servers.Eventually(t, "the replica is in step", func() bool {
		return replica.Info(t, "replication", "master_link_status") == "up" &&
			strings.Contains(master.Info(t, "replication", "slave0"), "state=online")
	})
	e := examine(t, redisURL(replica))
	e.Expect(t, "role", backends.Bad, "replica")
	if f := e["role"]; len(f) != 1 || !strings.Contains(f[0].Remedy, master.Addr()) {
		t.Errorf("the remedy does not name the master: %+v", f)
	}

	// It must acknowledge, and a master that is cut off from it must stop.
	e = examine(t, redisURL(master))
	e.Expect(t, "replicas", backends.Warning, "goes on taking writes")
	examine(t, redisURL(master)+"?replicas=0").Expect(t, "replicas", backends.Warning, "two runs may overlap")
	master.Do(t, "config", "set", "min-replicas-to-write", 1)
	examine(t, redisURL(master)).Expect(t, "replicas", backends.Fine, "1, of which 1 must")

	// It is frozen: connected, as far as the master knows, and silent.
	replica.Stop(t)
	examine(t, redisURL(master)).Expect(t, "replicas", backends.Bad, "nothing is granted")
	replica.Cont(t)

	// It is gone, and was seen.
	_, _, mark := keys("job")
	master.Do(t, "config", "set", "min-replicas-to-write", 0)
	master.Do(t, "hset", mark, "replicas", 1)
	replica.Kill()
	servers.Eventually(t, "the master knows", func() bool { return master.Info(t, "replication", "connected_slaves") == "0" })
	examine(t, redisURL(master)).Expect(t, "replicas", backends.Bad, "0 of 1")
}

func TestExamineRights(t *testing.T) {
	t.Parallel()
	acl := func(name, rights string) string { return "user " + name + " on >sesame " + rights }
	const all = "resetkeys ~leaderrun:* resetchannels &leaderrun:* -@all +eval +evalsha +wait +scan +subscribe +ping +info +time " +
		"+get +set +pttl +pexpire +del +hget +hgetall +hset +hdel +publish +select"
	s := servers.Redis(t, servers.RedisOptions{ACL: []string{
		acl("enough", all),
		acl("readonly", "~* &* -@all +@read +eval +evalsha +info +time +ping +wait +publish +subscribe +select"),
		acl("slow", all+" -publish -subscribe"),
		acl("elsewhere", strings.Replace(all, "~leaderrun:*", "~other:*", 1)),
		acl("noscript", all+" -eval -evalsha"),
		acl("deaf", strings.Replace(all, "&leaderrun:*", "", 1)),
	}})
	for _, c := range []struct {
		user  string
		grade backends.Grade
		say   []string
		not   string
	}{
		{"enough", backends.Fine, []string{"all"}, "+"},
		{"readonly", backends.Bad, []string{"+set", "+hset", "+hdel", "+del", "+pexpire"}, "+get"},
		{"slow", backends.Warning, []string{"+publish", "+subscribe"}, "+set"},
		{"elsewhere", backends.Bad, []string{"~leaderrun:*"}, "+set"},
		{"noscript", backends.Bad, []string{"+eval", "+evalsha"}, "+set"},
		{"deaf", backends.Warning, []string{"&leaderrun:*"}, "+set"},
	} {
		e := examine(t, "redis://"+c.user+":sesame@"+s.Addr())
		for _, say := range c.say {
			e.Expect(t, checkup.Rights, c.grade, say)
		}
		if len(e[checkup.Rights]) != 1 || c.grade != backends.Fine && strings.Contains(e[checkup.Rights][0].Why, c.not+" ") && c.grade == backends.Bad {
			t.Errorf("%s: %+v", c.user, e[checkup.Rights])
		}
	}
	examine(t, "redis://enough:not-sesame@"+s.Addr()).Expect(t, checkup.Reachable, backends.Bad, "WRONGPASS")
	if keys := s.Do(t, "dbsize"); keys != int64(0) {
		t.Errorf("%v keys were left behind", keys)
	}
}

func TestExamineSentinel(t *testing.T) {
	t.Parallel()
	set := servers.Sentinel(t, 1)
	e := examine(t, set.URL())
	e.Expect(t, "sentinel", backends.Fine, "3 of 3")
	e.Expect(t, "role", backends.Fine, "master")
	e.Expect(t, "replicas", backends.Warning, "goes on taking writes")
	one := "redis+sentinel://" + set.Sentinels[0].Addr() + "/" + set.Name
	examine(t, one).Expect(t, "sentinel", backends.Warning, "1 of 3")
	examine(t, redisURL(set.Sentinels[0])).Expect(t, "role", backends.Bad, "Sentinel")
	set.Sentinels[2].Kill()
	examine(t, set.URL()).Expect(t, "sentinel", backends.Warning, set.Sentinels[2].Addr())
	set.Sentinels[1].Kill()
	examine(t, set.URL()).Expect(t, "sentinel", backends.Bad, "1 of 3")
}

func TestExamineCluster(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, 0)
	url := "redis+cluster://" + nodes[0].Addr()
	e := examine(t, url)
	e.Expect(t, "cluster", backends.Fine, "3 masters")
	for _, n := range nodes { // every master needs a replica
		e.Expect(t, "replicas", backends.Bad, n.Addr()+": 0 of 1")
		e.Expect(t, checkup.Rights, backends.Fine, n.Addr())
	}
	examine(t, url+"?replicas=0").Expect(t, "replicas", backends.Warning, "two runs may overlap")
	examine(t, redisURL(nodes[0])).Expect(t, "role", backends.Bad, "node of a Redis Cluster")
	nodes[0].Do(t, "cluster", "delslots", 7)
	examine(t, url+"?replicas=0").Expect(t, "cluster", backends.Bad, "1 of 16384")
}

func TestFacts(t *testing.T) {
	t.Parallel()
	f := parseFacts("# Server\r\nredis_version:4.0.2\r\nrole:master\r\n")
	x := &examination{}
	if x.version(f) || x.Findings[0].Grade != backends.Bad {
		t.Errorf("Redis 4 is too old: %+v", x.Findings)
	}
	x = &examination{}
	if !x.version(facts{"redis_version": "7.2.4", "valkey_version": "8.0.1"}) || !strings.HasPrefix(x.Findings[0].Why, "Valkey 8.0.1") {
		t.Errorf("%+v", x.Findings)
	}
}
