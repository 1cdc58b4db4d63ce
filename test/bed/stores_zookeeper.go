package bed

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

func startZooKeeper(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	const host = "s"
	d := newDisk(t, "64m")
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{Address: n.Address(host), Netns: n.Name(host), Dir: d.dir})
	x := siteOf(n, s)
	a := zookeeperAdmin(func(testing.TB) *servers.ZooKeeperServer { return s })
	d.strain = func() error { // more than its log has room for: it ends, and the answer does not come
		_ = s.Put("/filler", strings.Repeat("x", 1<<18))
		return nil
	}
	r := x.running("zk://", "", s.Port)
	r.Faults = join(x.faultsOfOne(usualTTL), []Fault{x.diskLost(true), x.restored(), x.outOfFiles()}, a.faults(),
		pastLease(usualTTL, d.full(x.whole)...))
	return r
}

func startZooKeeperEnsemble(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	var members []servers.ZooKeeperOptions
	for _, host := range threeHosts {
		members = append(members, servers.ZooKeeperOptions{Address: n.Address(host), Netns: n.Name(host)})
	}
	set := servers.ZooKeeperEnsembleOf(t, members...)
	var ports []int
	for _, s := range set.Members {
		ports = append(ports, s.Port)
	}
	x := newSite(n, threeHosts, set.Members, set.Whole)
	x.leader = func(t testing.TB) server { return set.Leader(t) }
	x.election = 4 * time.Second
	// Once in hours a member whose connection to the leader breaks says "Severe unrecoverable error, from thread :
	// FollowerRequestProcessor", a leader is elected, and nobody is served any more.
	x.revive = set.Restart
	r := x.running("zk://", "", ports...)
	r.Faults = join(x.faultsOfMany(usualTTL), []Fault{x.memberLost()}, zookeeperAdmin(set.Leader).faults())
	return r
}

// memberLost is a follower that returns without its data, which it takes from the leader.
func (x *site) memberLost() Fault {
	return Fault{
		Name: "follower killed, its disk lost", OnServer: true, Peers: true,
		Strike: func(b *Bed, _ Victim) (func() error, error) {
			i := x.followers(b, 1)[0]
			x.servers[i].Kill()
			return func() error {
				x.servers[i].Restart(b.T, false)
				return x.whole(b.T)
			}, nil
		},
	}
}

// zookeeperAdmin does what people do to a ZooKeeper: by the server that it returns.
type zookeeperAdmin func(t testing.TB) *servers.ZooKeeperServer

const zookeeperJobs = "/leaderrun"

func (a zookeeperAdmin) faults() []Fault {
	return []Fault{
		emptied(true, func(t testing.TB) error { return a.remove(t, zookeeperJobs) }),
		once("lease deleted", func(t testing.TB, lease string) error { return a.remove(t, zookeeperJobs+"/"+inPath(lease)+"/lease") }),
	}
}

func (a zookeeperAdmin) remove(t testing.TB, path string) error {
	t.Helper()
	err := a(t).Delete(path)
	if errors.Is(err, servers.ErrNoNode) {
		err = errNoLease
	}
	return err
}
