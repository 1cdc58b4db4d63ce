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
	d, at := newDisk(t, "64m"), n.At("s")
	at.Dir = d.dir
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{At: at})
	x := siteOf(n, s)
	a := zookeeperAdmin(func(testing.TB) *servers.ZooKeeperServer { return s })
	d.strain = func() error { // more than its log has room for: it ends, and the answer does not come
		_ = s.Put("/filler", strings.Repeat("x", 1<<18))
		return nil
	}
	r := x.running("zk://", "")
	r.Faults = join(x.faultsOfOne(usualTTL), []Fault{x.diskLost(true), x.restored(), x.outOfFiles()}, a.faults(),
		pastLease(usualTTL, d.full(x)...))
	return r
}

func startZooKeeperEnsemble(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	set := servers.ZooKeeperEnsembleOf(t, onThree(n, func(at servers.At) servers.ZooKeeperOptions {
		return servers.ZooKeeperOptions{At: at}
	})...)
	x := siteOfMany(n, set.Members, set.Leader, set.Whole, 4*time.Second)
	// Once in hours a member whose connection to the leader breaks says "Severe unrecoverable error, from thread :
	// FollowerRequestProcessor", a leader is elected, and nobody is served any more.
	x.revive = set.Restart
	r := x.running("zk://", "")
	r.Faults = join(x.faultsOfMany(usualTTL), []Fault{x.memberLost()}, zookeeperAdmin(set.Leader).faults())
	return r
}

// memberLost is a follower that returns without its data, which it takes from the leader.
func (x *site) memberLost() Fault {
	return x.hit(aFollower, "killed, its disk lost", func(b *Bed, hit []int) (func() error, error) { return x.lost(b, hit[0]), nil })
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
