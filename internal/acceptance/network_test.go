package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// networks numbers the networks of these tests, which run side by side.
var networks atomic.Int32

// network is a switch and some hosts, in network namespaces of their own. Nothing of it reaches the machine's
// own network.
type network struct {
	t      *testing.T
	prefix string
	n      int
	hosts  []string
}

func newNetwork(t *testing.T, hosts ...string) *network {
	t.Helper()
	testserver.Require(t, "netns")
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n := &network{t: t, n: int(networks.Add(1)), hosts: hosts}
	n.prefix = fmt.Sprintf("lr%d-%d-", os.Getpid()%100000, n.n)
	const hub = "switch"
	n.namespace(hub)
	n.in(hub, "ip", "link", "add", "bridge", "type", "bridge")
	n.in(hub, "ip", "link", "set", "bridge", "up")
	for _, host := range hosts {
		n.namespace(host)
		n.must("ip", "link", "add", "eth0", "netns", n.name(host), "type", "veth", "peer", "name", "to-"+host, "netns", n.name(hub))
		n.in(hub, "ip", "link", "set", "to-"+host, "master", "bridge", "up")
		n.in(host, "ip", "addr", "add", n.address(host)+"/24", "dev", "eth0")
		n.in(host, "ip", "link", "set", "eth0", "up")
	}
	return n
}

func (n *network) name(host string) string { return n.prefix + host }

// address returns the address of a host, of the range that RFC 2544 sets aside for tests.
func (n *network) address(host string) string {
	return fmt.Sprintf("198.18.%d.%d", n.n, slices.Index(n.hosts, host)+1)
}

func (n *network) namespace(host string) {
	n.t.Helper()
	n.must("ip", "netns", "add", n.name(host))
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.name(host)).Run() })
	n.in(host, "ip", "link", "set", "lo", "up")
}

func (n *network) must(words ...string) {
	n.t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

// execOutput runs a program and returns what it says.
func execOutput(words ...string) (string, error) {
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return string(out), nil
}

// where returns the words that start a program on a host.
func (n *network) where(host string) []string { return []string{"ip", "netns", "exec", n.name(host)} }

func (n *network) in(host string, words ...string) {
	n.t.Helper()
	n.must(append(n.where(host), words...)...)
}

// dies ends every process of a host, as a power cut does: none of them can still act on the end of another.
func (n *network) dies(host string) {
	n.t.Helper()
	for {
		text, err := exec.Command("ip", "netns", "pids", n.name(host)).Output()
		if err != nil {
			n.t.Errorf("the processes of %s: %v", host, err)
			return
		}
		var pids []int
		for word := range strings.FieldsSeq(string(text)) {
			if pid, _ := strconv.Atoi(word); alive(pid) {
				pids = append(pids, pid)
			}
		}
		if len(pids) == 0 {
			return
		}
		// The wrapper first, then the guardian: what they would see of the others' end is no part of a power cut.
		rank := map[string]int{"leaderrun": 0, "lr-guard": 1}
		slices.SortFunc(pids, func(a, b int) int { return among(rank, comm(a)) - among(rank, comm(b)) })
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, pid := range pids {
				_ = syscall.Kill(pid, sig)
			}
		}
	}
}

// among returns a name's rank; one that has none comes last.
func among(rank map[string]int, name string) int {
	if r, ok := rank[name]; ok {
		return r
	}
	return len(rank)
}

// drop makes a host lose packets without a word, as a broken switch does: hooks are "input", "output" or both.
func (n *network) drop(host string, hooks ...string) {
	n.t.Helper()
	n.in(host, "nft", "add", "table", "inet", "fault")
	for _, hook := range hooks {
		n.in(host, "nft", "add", "chain", "inet", "fault", hook, "{ type filter hook "+hook+" priority 0; policy drop; }")
	}
}

// cut makes a host lose every packet from and to some others.
func (n *network) cut(host string, others ...string) {
	n.t.Helper()
	n.in(host, "nft", "add", "table", "inet", "fault")
	for hook, side := range map[string]string{"input": "saddr", "output": "daddr"} {
		n.in(host, "nft", "add", "chain", "inet", "fault", hook, "{ type filter hook "+hook+" priority 0; }")
		for _, other := range others {
			n.in(host, "nft", "add", "rule", "inet", "fault", hook, "ip", side, n.address(other), "drop")
		}
	}
}

// heal ends every fault on a host.
func (n *network) heal(host string) {
	n.t.Helper()
	n.in(host, "nft", "delete", "table", "inet", "fault")
}

// networkWithRedis is a network of hosts and of one more, "s", on which Redis runs.
func networkWithRedis(t *testing.T, hosts ...string) (n *network, url string, server *testserver.Process) {
	t.Helper()
	testserver.Require(t, "redis")
	n = newNetwork(t, append([]string{"s"}, hosts...)...)
	dir := testserver.Dir(t)
	words := append(n.where("s"), "redis-server", "--port", "6379", "--protected-mode", "no", "--save", "", "--dir", dir)
	server = testserver.Start(t, dir, words[0], words[1:]...)
	return n, "redis://" + n.address("s") + "/?longest-ttl=" + ttl.String(), server
}

// A host whose packets vanish without a reset ends its run before another host can have the job, and does not
// disturb it when the network is back.
func TestNetworkDropsPackets(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string][]string{
		"both ways":        {"input", "output"},
		"only the replies": {"input"},
		"only requests":    {"output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, url, _ := networkWithRedis(t, "a", "b")
			b := newBed(t, url)
			w := b.start(n.where("a"), "--backend-wait", "1m")
			old := b.beats(w, 0)
			standby := b.start(n.where("b"), "--wait", "forever")
			n.drop("a", hooks...)
			struck := boottime.Now()

			if code := w.wait(); code != 75 {
				t.Errorf("exit code %d, want 75: %s", code, w.output.String())
			}
			for _, s := range verdict(t, b.log) {
				if lived := s.last.Sub(struck); s.token == old.token && lived >= ttl {
					t.Errorf("the run lived on for %v after the cut: a lease of %v had run out", lived, ttl)
				}
			}
			gone(t, old)
			next := b.beats(standby, old.token)
			n.heal("a")
			late := b.start(n.where("a"), "--backend-wait", "1m")
			if code := late.wait(); code != 0 {
				t.Errorf("the host that is back ends with %d, want 0 because the job is held: %s", code, late.output.String())
			}
			if now := last(t, b.log); now.token != next.token {
				t.Errorf("token %d runs, want %d", now.token, next.token)
			}
			standby.signal(syscall.SIGTERM)
		})
	}
}
