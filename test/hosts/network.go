package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// networks numbers the networks of these tests, which run side by side.
var networks atomic.Int32

// Network is a switch and some hosts, in network namespaces of their own. Nothing of it reaches the machine's
// own network.
type Network struct {
	t      testing.TB
	prefix string
	n      int
	hosts  []string
	tables atomic.Int32 // of packet filters, one for each fault

	mu      sync.Mutex
	detours map[string]*Detour // by host
	groups  map[string]bool    // folders of control groups that exist
	names   *names             // nil: nobody resolves names here
}

// hub is the host that is the switch.
const hub = "switch"

// NewNetwork makes the hosts, and removes them when the test ends.
func NewNetwork(t testing.TB, hosts ...string) *Network {
	t.Helper()
	servers.RequireRoot(t, "netns", "network namespaces")
	n := &Network{t: t, n: int(networks.Add(1)), hosts: hosts, detours: map[string]*Detour{}, groups: map[string]bool{}}
	n.prefix = fmt.Sprintf("lr%d-%d-", os.Getpid()%100000, n.n)
	n.namespace(hub)
	n.In(hub, "ip", "link", "add", "bridge", "type", "bridge")
	n.In(hub, "ip", "link", "set", "bridge", "up")
	for _, host := range hosts {
		n.attach(host, n.Address(host))
	}
	return n
}

// attach makes a host and plugs it into the switch.
func (n *Network) attach(host, address string) {
	n.t.Helper()
	n.namespace(host)
	n.must("ip", "link", "add", "eth0", "netns", n.Name(host), "type", "veth", "peer", "name", "to-"+host, "netns", n.Name(hub))
	n.In(hub, "ip", "link", "set", "to-"+host, "master", "bridge", "up")
	n.In(host, "ip", "addr", "add", address+"/24", "dev", "eth0")
	n.In(host, "ip", "link", "set", "eth0", "up")
}

// Name returns the name of a host's namespace, as ip-netns(8) knows it.
func (n *Network) Name(host string) string { return n.prefix + host }

// Address returns the address of a host, of the range that RFC 2544 sets aside for tests.
func (n *Network) Address(host string) string {
	return fmt.Sprintf("198.18.%d.%d", n.n, slices.Index(n.hosts, host)+1)
}

// At is where a server on a host runs.
func (n *Network) At(host string) servers.At {
	return servers.At{Address: n.Address(host), Netns: n.Name(host)}
}

func (n *Network) namespace(host string) {
	n.t.Helper()
	n.must("ip", "netns", "add", n.Name(host))
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.Name(host)).Run() })
	n.In(host, "ip", "link", "set", "lo", "up")
}

func (n *Network) must(words ...string) {
	n.t.Helper()
	if err := feed("", words...); err != nil {
		n.t.Fatal(err)
	}
}

// feed runs a program to its end, with a text as its input.
func feed(text string, words ...string) error {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// Where returns the words that start a program on a host.
func (n *Network) Where(host string) []string { return []string{"ip", "netns", "exec", n.Name(host)} }

// In runs a program on a host to its end, which must be a good one.
func (n *Network) In(host string, words ...string) {
	n.t.Helper()
	n.must(append(n.Where(host), words...)...)
}

// Dies ends every process of a host, as a power cut does: none of them can still act on the end of another.
func (n *Network) Dies(host string) {
	n.t.Helper()
	for {
		pids, err := n.pids(host)
		if err != nil {
			n.t.Error(err)
			return
		}
		if len(pids) == 0 {
			return
		}
		// The wrapper first, then the guardian: what they would see of the others' end is no part of a power cut.
		rank := map[string]int{"leaderrun": 0, "lr-guard": 1}
		slices.SortFunc(pids, func(a, b int) int { return among(rank, Comm(a)) - among(rank, Comm(b)) })
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, pid := range pids {
				_ = syscall.Kill(pid, sig)
			}
		}
		n.thaw(host) // what is frozen dies when it goes on
	}
}

// pids returns the processes of a host that are alive.
func (n *Network) pids(host string) ([]int, error) {
	text, err := exec.Command("ip", "netns", "pids", n.Name(host)).Output()
	if err != nil {
		return nil, fmt.Errorf("the processes of %s: %w", host, err)
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		if pid, _ := strconv.Atoi(word); Alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// among returns a name's rank; one that has none comes last.
func among(rank map[string]int, name string) int {
	if r, ok := rank[name]; ok {
		return r
	}
	return len(rank)
}

// Drop makes a host lose packets without a word, as a broken switch does: hooks are "input", "output" or both.
func (n *Network) Drop(host string, hooks ...string) {
	n.t.Helper()
	n.In(host, "nft", "add", "table", "inet", "fault")
	for _, hook := range hooks {
		n.In(host, "nft", "add", "chain", "inet", "fault", hook, "{ type filter hook "+hook+" priority 0; policy drop; }")
	}
}

// Cut makes a host lose every packet from and to some others.
func (n *Network) Cut(host string, others ...string) {
	n.t.Helper()
	n.In(host, "nft", "add", "table", "inet", "fault")
	for hook, side := range map[string]string{"input": "saddr", "output": "daddr"} {
		n.In(host, "nft", "add", "chain", "inet", "fault", hook, "{ type filter hook "+hook+" priority 0; }")
		for _, other := range others {
			n.In(host, "nft", "add", "rule", "inet", "fault", hook, "ip", side, n.Address(other), "drop")
		}
	}
}

// Heal ends every fault on a host.
func (n *Network) Heal(host string) {
	n.t.Helper()
	n.In(host, "nft", "delete", "table", "inet", "fault")
}
