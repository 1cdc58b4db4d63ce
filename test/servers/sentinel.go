package servers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// SentinelSet is a master with replicas, and the Sentinels that watch them.
type SentinelSet struct {
	Name      string // of the master, in the Sentinels
	Servers   []*RedisServer
	Sentinels []*RedisServer
}

// Sentinel starts a master with replicas and three Sentinels, who agree within some seconds that it is down: not sooner, as one
// that its machine keeps from answering for five is well.
func Sentinel(t testing.TB, replicas int) *SentinelSet {
	t.Helper()
	return newSentinel(t, make([]RedisOptions, 1+replicas), make([]At, 3), 6*time.Second)
}

// SentinelOf starts a master and its replicas, on addresses of their own perhaps, and beside each of them a Sentinel. The
// first becomes the master. There must be three at least. They agree within about a second that it is down.
func SentinelOf(t testing.TB, members ...RedisOptions) *SentinelSet {
	t.Helper()
	var places []At
	for _, o := range members {
		places = append(places, At{Address: o.Address, Netns: o.Netns})
	}
	return newSentinel(t, members, places, 500*time.Millisecond)
}

func newSentinel(t testing.TB, members []RedisOptions, places []At, down time.Duration) *SentinelSet {
	t.Helper()
	Require(t, "sentinel")
	set := &SentinelSet{Name: "main"}
	for i, o := range members {
		if i > 0 {
			o.ReplicaOf = set.Servers[0]
		}
		set.Servers = append(set.Servers, Redis(t, o))
	}
	replicas := len(members) - 1
	set.InSync(t, replicas)
	for _, at := range places {
		set.Sentinels = append(set.Sentinels, set.watch(t, at))
	}
	status := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", set.Servers[0].Addr(), replicas, len(places))
	for _, s := range set.Sentinels {
		Eventually(t, "the Sentinels know each other and the replicas", func() bool {
			text, _ := s.Do(t, "info", "sentinel").(string)
			return strings.Contains(text, status)
		})
	}
	for _, s := range set.Sentinels {
		s.Do(t, "sentinel", "set", set.Name, "down-after-milliseconds", down.Milliseconds())
		// A Sentinel that has stood still for two seconds believes nothing for thirty else. Redis 6 cannot be told.
		_, _ = s.Try("sentinel", "debug", "tilt-period", 1000)
	}
	return set
}

// watch starts a Sentinel that watches the first server. It takes it for down after a minute: the first one stays the master until
// all of them know each other.
func (s *SentinelSet) watch(t testing.TB, at At) *RedisServer {
	t.Helper()
	x, master := newRedis(t, "sentinel", RedisOptions{At: at}), s.Servers[0]
	x.begin(t, []string{
		fmt.Sprintf("port %d", x.Port), "bind " + x.place.host(), "protected-mode no", "dir " + x.dir,
		fmt.Sprintf("sentinel monitor %s %s %d 2", s.Name, master.place.host(), master.Port),
		"sentinel down-after-milliseconds " + s.Name + " 60000", "sentinel failover-timeout " + s.Name + " 3000",
	})
	return x
}

// URL returns a backend URL that names the Sentinels.
func (s *SentinelSet) URL() string {
	var hosts []string
	for _, x := range s.Sentinels {
		hosts = append(hosts, x.Addr())
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + s.Name
}

// Master returns the server that most Sentinels name, or nil.
func (s *SentinelSet) Master(testing.TB) *RedisServer { return s.master() }

func (s *SentinelSet) master() *RedisServer {
	votes := map[string]int{}
	for _, x := range s.Sentinels {
		votes[s.named(x)]++
	}
	for _, server := range s.Servers {
		if 2*votes[server.Addr()] > len(s.Sentinels) {
			return server
		}
	}
	return nil
}

// InSync waits until a master has n replicas that are in step.
func (s *SentinelSet) InSync(t testing.TB, n int) {
	t.Helper()
	Eventually(t, "the replicas are in step", func() bool {
		for _, server := range s.Servers {
			if text, _ := server.Try("info", "replication"); text != nil {
				text := text.(string) //nolint:errcheck // INFO is text
				if strings.Contains(text, "role:master") && strings.Count(text, "state=online") >= n {
					return true
				}
			}
		}
		return false
	})
}

// FailOver has a Sentinel promote a replica of a master that is well. A Sentinel gives an order up that it cannot carry out within
// some seconds, and is asked again.
func (s *SentinelSet) FailOver(t testing.TB, by int, old *RedisServer) {
	t.Helper()
	x := s.Sentinels[by]
	Eventually(t, "a Sentinel names another master", func() bool {
		if now := s.named(x); now != "" && now != old.Addr() {
			return true
		}
		_, _ = x.Try("sentinel", "failover", s.Name)
		return false
	})
}

// named is the address of the master that a Sentinel names; "": it names none.
func (s *SentinelSet) named(x *RedisServer) string {
	answer, _ := x.Try("sentinel", "get-master-addr-by-name", s.Name) // one that is away has no vote
	if words, _ := answer.([]any); len(words) == 2 {
		return fmt.Sprint(words[0], ":", words[1])
	}
	return ""
}

// Changed waits until the Sentinels name another master than old, and returns it.
func (s *SentinelSet) Changed(t testing.TB, old *RedisServer) *RedisServer {
	t.Helper()
	var now *RedisServer
	Eventually(t, "another master", func() bool {
		now = s.master()
		return now != nil && now != old && now.Info(t, "replication", "role") == "master"
	})
	return now
}

// Whole asks whether the Sentinels agree on a master, and all other servers follow it.
func (s *SentinelSet) Whole() error {
	master := s.master()
	if master == nil {
		return errors.New("no master on which most Sentinels agree")
	}
	answer, err := master.Try("info", "replication")
	text, _ := answer.(string)
	if err == nil && (!strings.Contains(text, "role:master") || strings.Count(text, "state=online") < len(s.Servers)-1) {
		err = fmt.Errorf("the master has not all its replicas: %s", text)
	}
	return err
}
