package testserver

import (
	"fmt"
	"testing"
)

// ConsulSet is the servers of a Consul datacenter.
type ConsulSet struct {
	set[*ConsulServer]
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

// Restart kills all servers and starts them again, with their data or without.
func (s *ConsulSet) Restart(t testing.TB, keepData bool) {
	t.Helper()
	s.stop(t, keepData)
	s.start(t)
}
