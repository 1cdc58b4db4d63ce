package servers

import (
	"fmt"
	"strings"
	"testing"
)

// EtcdSet is an etcd cluster.
type EtcdSet struct {
	set[*EtcdServer]
}

// EtcdCluster starts an etcd cluster of n members.
func EtcdCluster(t testing.TB, n int) *EtcdSet {
	t.Helper()
	return EtcdClusterOf(t, make([]EtcdOptions, n)...)
}

// EtcdClusterOf starts an etcd cluster of members that differ, in their addresses perhaps. The password must be
// the same for all.
func EtcdClusterOf(t testing.TB, members ...EtcdOptions) *EtcdSet {
	t.Helper()
	set := &EtcdSet{}
	var names []string
	for i, o := range members {
		s := newEtcd(t, fmt.Sprintf("m%d", i), o)
		set.Members = append(set.Members, s)
		names = append(names, s.member())
	}
	for _, s := range set.Members {
		s.configure(set.Members[0].dir, strings.Join(names, ","))
	}
	set.settle = set.enableAuth
	set.begin(t)
	return set
}

// enableAuth asks one member: the data is everybody's.
func (s *EtcdSet) enableAuth(t testing.TB) {
	t.Helper()
	s.Members[0].enableAuth(t)
	for _, m := range s.Members {
		m.auth = s.Members[0].auth
	}
}

// URL returns a backend URL that names all members, without credentials.
func (s *EtcdSet) URL() string {
	var hosts []string
	for _, m := range s.Members {
		hosts = append(hosts, m.Endpoint())
	}
	return s.Members[0].place.url("etcd", hosts...)
}
