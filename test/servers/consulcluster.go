package servers

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
	set.begin(t)
	return set
}

// URL returns a backend URL that names all servers, without a token.
func (s *ConsulSet) URL() string {
	var hosts []string
	for _, m := range s.Members {
		hosts = append(hosts, m.Addr())
	}
	return s.Members[0].place.url("consul", hosts...)
}
