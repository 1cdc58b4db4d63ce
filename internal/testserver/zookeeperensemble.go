package testserver

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
	set := &ZooKeeperSet{}
	for i, o := range members {
		set.Members = append(set.Members, newZooKeeper(t, i+1, o))
	}
	for _, s := range set.Members {
		s.configure(t, set.Members)
	}
	tellAll(t, len(set.Members), func(i int) (string, *Process) { return set.Members[i].Name, set.Members[i].Process })
	set.start(t)
	return set
}

func (s *ZooKeeperSet) start(t testing.TB) {
	t.Helper()
	for _, m := range s.Members {
		m.run(t)
	}
	for _, m := range s.Members {
		m.await(t)
	}
	s.Agreed(t)
}

// URL returns a backend URL that names all members, without credentials.
func (s *ZooKeeperSet) URL() string {
	var addrs []string
	for _, m := range s.Members {
		addrs = append(addrs, m.Addr())
	}
	return s.Members[0].place.url("zk", addrs...)
}

// Restart kills all members and starts them again, with their data or without.
func (s *ZooKeeperSet) Restart(t testing.TB, keepData bool) {
	t.Helper()
	s.stop(t, keepData)
	s.start(t)
}
