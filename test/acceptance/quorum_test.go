package acceptance

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// majorityTTL is for runs that need not outlast anything.
const majorityTTL = 15 * time.Second

// members are the hosts of a store of three, where they have a network.
var members = []string{"m0", "m1", "m2"}

// cluster is a store of three members. Its leader comes first in the URL: it is the one that is asked.
type cluster struct {
	t       *testing.T
	url     string
	process func(i int) *servers.Process
	restart func(i int)
	leader  func() int
	changed func(old int) // waits until another member than old leads
	agreed  func()        // waits until all members follow one leader
}

// others are the members but one.
func (c *cluster) others(i int) []string { return slices.Delete(slices.Clone(members), i, i+1) }

// clusters starts the stores that decide by majority, each on its hosts in a network, or all on loopback.
var clusters = map[string]func(t *testing.T, n *hosts.Network) *cluster{
	"etcd": func(t *testing.T, n *hosts.Network) *cluster {
		t.Helper()
		servers.Require(t, "etcd")
		options := make([]servers.EtcdOptions, len(members))
		for i := range members {
			options[i].Address, options[i].Netns = place(n, i)
		}
		s := servers.EtcdClusterOf(t, options...)
		return newCluster(t, "etcd://", s, s.Members, (*servers.EtcdServer).Endpoint,
			func(m *servers.EtcdServer) *servers.Process { return m.Process })
	},
	"Consul": func(t *testing.T, n *hosts.Network) *cluster {
		t.Helper()
		servers.Require(t, "consul")
		options := make([]servers.ConsulOptions, len(members))
		for i := range members {
			options[i].Address, options[i].Netns = place(n, i)
		}
		s := servers.ConsulClusterOf(t, options...)
		return newCluster(t, "consul://", s, s.Members, (*servers.ConsulServer).Addr,
			func(m *servers.ConsulServer) *servers.Process { return m.Process })
	},
	"ZooKeeper": func(t *testing.T, n *hosts.Network) *cluster {
		t.Helper()
		servers.Require(t, "zookeeper")
		options := make([]servers.ZooKeeperOptions, len(members))
		for i := range members {
			options[i].Address, options[i].Netns = place(n, i)
			options[i].MaxSessionTimeout = longTTL
		}
		s := servers.ZooKeeperEnsembleOf(t, options...)
		return newCluster(t, "zk://", s, s.Members, (*servers.ZooKeeperServer).Addr,
			func(m *servers.ZooKeeperServer) *servers.Process { return m.Process })
	},
}

// place returns the address and the namespace of a member; without a network those of the test.
func place(n *hosts.Network, i int) (address, netns string) {
	if n == nil {
		return "", ""
	}
	return n.Address(members[i]), n.Name(members[i])
}

// set is what the sets of servers have in common.
type set[M any] interface {
	Leader(t testing.TB) M
	Changed(t testing.TB, old M) M
	Agreed(t testing.TB) M
}

func newCluster[M interface {
	comparable
	Restart(t testing.TB, keepData bool)
}](t *testing.T, scheme string, s set[M], all []M, addr func(M) string, process func(M) *servers.Process) *cluster {
	t.Helper()
	c := &cluster{
		t:       t,
		process: func(i int) *servers.Process { return process(all[i]) },
		restart: func(i int) { all[i].Restart(t, true) },
		leader:  func() int { return slices.Index(all, s.Leader(t)) },
		changed: func(old int) { s.Changed(t, all[old]) },
		agreed:  func() { s.Agreed(t) },
	}
	var hosts []string
	for _, m := range all {
		hosts = append(hosts, addr(m))
	}
	c.url = c.first(scheme, hosts)
	return c
}

func (c *cluster) first(scheme string, hosts []string) string {
	l := c.leader()
	return scheme + strings.Join(append([]string{hosts[l]}, slices.Delete(slices.Clone(hosts), l, l+1)...), ",")
}

// quorumFault is something that leaves a majority which can be reached.
type quorumFault struct {
	name    string
	network bool // it needs one
	strike  func(c *cluster, n *hosts.Network, leader int)
	mend    func(c *cluster, n *hosts.Network, leader int) // nil: nothing to mend
	// The old leader comes back only when leases are over as far as it knows.
	stale bool
	// A member of this store that wakes up may end leases which others have renewed since.
	revokes string
}

var quorumFaults = []quorumFault{
	{
		name: "leader killed",
		strike: func(c *cluster, _ *hosts.Network, leader int) {
			c.process(leader).Kill()
			c.changed(leader)
		},
		mend: func(c *cluster, _ *hosts.Network, leader int) { c.restart(leader) },
	},
	{
		name: "leader stopped", stale: true, revokes: "etcd", // when it goes on, it does not know that it leads no more
		strike: func(c *cluster, _ *hosts.Network, leader int) {
			c.process(leader).Stop(c.t)
			c.changed(leader)
		},
		mend: func(c *cluster, _ *hosts.Network, leader int) { c.process(leader).Cont(c.t) },
	},
	{
		name: "leader cut off from the others, not from us", network: true, stale: true,
		strike: func(c *cluster, n *hosts.Network, leader int) {
			n.Cut(members[leader], c.others(leader)...)
			c.changed(leader)
		},
		mend: func(_ *cluster, n *hosts.Network, leader int) { n.Heal(members[leader]) },
	},
	{
		name: "the member that we ask cut off from us, not from the others", network: true,
		strike: func(_ *cluster, n *hosts.Network, leader int) { n.Cut("a", members[leader]) },
		mend:   func(_ *cluster, n *hosts.Network, _ int) { n.Heal("a") },
	},
	{
		name: "every member restarted in turn",
		strike: func(c *cluster, _ *hosts.Network, leader int) {
			for i := range members {
				c.restart((leader + i) % len(members))
				c.agreed()
			}
		},
	},
}

// A run survives whatever leaves a majority, and nobody else starts beside it.
func TestRunSurvivesWhatLeavesAMajority(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for store, start := range clusters {
		for _, f := range quorumFaults {
			t.Run(store+", "+f.name, func(t *testing.T) {
				t.Parallel()
				var n *hosts.Network
				var where []string
				if f.network {
					n = hosts.NewNetwork(t, append(slices.Clone(members), "a", "b")...)
					where = n.Where("a")
				}
				c := start(t, n)
				b := newBed(t, c.url)
				b.ttl = longTTL
				w := b.start(where, "--backend-wait", "1m")
				old := b.beats(w, 0)
				if f.network {
					where = n.Where("b")
				} else {
					b.newcomers()
				}
				standby := b.start(where, "--wait", "forever")
				leader := c.leader()
				f.strike(c, n, leader)
				over := boottime.Now().Add(b.ttl)
				if store == "Consul" {
					over = over.Add(b.ttl) // it ends a session after twice its TTL
				}
				b.survives(w, old.token)
				if f.stale {
					servers.Eventually(t, "leases are over for the old leader", func() bool { return w.ended() || boottime.Now() >= over })
					b.survives(w, old.token)
				}
				if f.mend == nil {
					return
				}
				f.mend(c, n, leader)
				if f.revokes != store {
					b.survives(w, old.token)
					return
				}
				for range 2 { // at once, or as soon as the others hear of it
					if !b.renewed(w) {
						t.Log("the member that woke up ended the lease")
						b.beats(standby, old.token)
						return
					}
				}
				b.only(old.token)
			})
		}
	}
}

// A run that no majority can renew is dead in time, and the next one starts when there is a majority again.
func TestRunEndsWithoutAMajority(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for store, start := range clusters {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := start(t, nil)
			b := newBed(t, c.url)
			b.ttl = majorityTTL
			stopped := []int{c.leader(), (c.leader() + 1) % len(members)}
			strike(b, c, fault[*cluster]{
				code: 75,
				strike: func(_ *bed, c *cluster, _ *wrapper) {
					for _, i := range stopped {
						c.process(i).Stop(t)
					}
				},
				mend: func(_ *bed, c *cluster, w *wrapper) {
					w.wait()
					for _, i := range stopped {
						c.process(i).Cont(t)
					}
				},
			})
		})
	}
}

// A majority that goes while a claim is under way leaves no run behind of which nobody knows.
func TestClaimWithoutAMajority(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for store, start := range clusters {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := start(t, nil)
			b := newBed(t, c.url)
			b.ttl = majorityTTL
			leader := c.leader()
			stopped := []int{(leader + 1) % len(members), (leader + 2) % len(members)}
			for _, i := range stopped {
				c.process(i).Stop(t)
			}
			w := b.start(nil, "--backend-wait", "2s")
			if code := w.wait(); code != 69 {
				t.Errorf("exit code %d, want 69: %s", code, w.said())
			}
			for _, i := range stopped {
				c.process(i).Cont(t)
			}
			late := b.start(nil, "--wait", "forever")
			b.beats(late, 0)
			late.signal(syscall.SIGKILL)
		})
	}
}
