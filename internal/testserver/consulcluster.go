package testserver

import (
	"fmt"
	"testing"
)

// ConsulSet is the servers of a Consul datacenter.
type ConsulSet struct {
	Members []*ConsulServer
}

// ConsulCluster starts a Consul datacenter of n servers.
func ConsulCluster(t testing.TB, n int) *ConsulSet {
	t.Helper()
	return ConsulClusterOf(t, make([]ConsulOptions, n)...)
}

// ConsulClusterOf starts a Consul datacenter of servers that differ, in their addresses perhaps. The token must
// be the same for all.
func ConsulClusterOf(t testing.TB, members ...ConsulOptions) *ConsulSet {
	t.Helper()
	set := &ConsulSet{}
	for i, o := range members {
		set.Members = append(set.Members, newConsul(t, fmt.Sprintf("s%d", i), o))
	}
	for _, s := range set.Members {
		s.configure(t, set.Members)
	}
	tellAll(t, len(set.Members), func(i int) (string, *Process) { return set.Members[i].Name, set.Members[i].Process })
	set.start(t)
	return set
}

func (s *ConsulSet) start(t testing.TB) {
	t.Helper()
	for _, m := range s.Members {
		m.run(t)
	}
	for _, m := range s.Members {
		m.await(t)
	}
	s.Agreed(t)
}

// URL returns a backend URL that names all servers, without a token.
func (s *ConsulSet) URL() string {
	var hosts []string
	for _, m := range s.Members {
		hosts = append(hosts, m.Addr())
	}
	return s.Members[0].place.url("consul", hosts...)
}

// Leader returns the server that most servers follow, as soon as there is one.
func (s *ConsulSet) Leader(t testing.TB) *ConsulServer {
	t.Helper()
	return s.Changed(t, nil)
}

func (s *ConsulSet) leader() (*ConsulServer, bool) {
	i, all := leaderOf(len(s.Members), func(i int) (string, string, error) {
		m := s.Members[i]
		leader, err := m.leader()
		return m.place.addr(m.server), leader, err
	})
	if i < 0 {
		return nil, false
	}
	return s.Members[i], all
}

// Agreed waits until all servers follow one leader, and returns it.
func (s *ConsulSet) Agreed(t testing.TB) *ConsulServer {
	t.Helper()
	var now *ConsulServer
	Eventually(t, "all servers follow one leader", func() (all bool) {
		now, all = s.leader()
		return all
	})
	return now
}

// Changed waits until most servers follow another leader than old, who takes what is written, and returns it.
func (s *ConsulSet) Changed(t testing.TB, old *ConsulServer) *ConsulServer {
	t.Helper()
	var now *ConsulServer
	Eventually(t, "a leader, and another one", func() bool {
		now, _ = s.leader()
		return now != nil && now != old
	})
	now.await(t)
	return now
}

// Restart kills all servers and starts them again, with their data or without.
func (s *ConsulSet) Restart(t testing.TB, keepData bool) {
	t.Helper()
	for _, m := range s.Members {
		m.Kill()
	}
	for _, m := range s.Members {
		if !keepData {
			m.wipe(t)
		}
	}
	s.start(t)
}
