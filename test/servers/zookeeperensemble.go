package servers

import "testing"

// ZooKeeperSet is a ZooKeeper ensemble.
type ZooKeeperSet struct {
	set[*ZooKeeperServer]
}

// ZooKeeperEnsemble starts a ZooKeeper ensemble of n members.
func ZooKeeperEnsemble(t testing.TB, n int) *ZooKeeperSet {
	t.Helper()
	return ZooKeeperEnsembleOf(t, make([]ZooKeeperOptions, n)...)
}

// ZooKeeperEnsembleOf starts a ZooKeeper ensemble of members that differ, in their addresses perhaps.
func ZooKeeperEnsembleOf(t testing.TB, members ...ZooKeeperOptions) *ZooKeeperSet {
	t.Helper()
	SkipShort(t)
	set := &ZooKeeperSet{}
	for i, o := range members {
		set.Members = append(set.Members, newZooKeeper(t, i+1, o))
	}
	for _, s := range set.Members {
		s.configure(t, set.Members)
	}
	set.begin(t)
	return set
}

// URL returns a backend URL that names all members, without credentials.
func (s *ZooKeeperSet) URL() string {
	var addrs []string
	for _, m := range s.Members {
		addrs = append(addrs, m.Addr())
	}
	return s.Members[0].place.url("zk", addrs...)
}
