package servers

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// islands are network namespaces that a bridge in one more joins to each other, and to nothing else.
type islands struct {
	t     *testing.T
	names []string
}

func newIslands(t *testing.T, n int, id string) *islands {
	t.Helper()
	RequireRoot(t, "netns", "network namespaces")
	x := &islands{t: t}
	prefix := fmt.Sprintf("lrt%d%s", os.Getpid()%100000, id)
	hub := prefix + "h"
	x.add(hub)
	x.run("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
	x.run("ip", "-n", hub, "link", "set", "hub", "up")
	for i := range n {
		name := fmt.Sprint(prefix, i)
		x.add(name)
		far := fmt.Sprint("far", i)
		x.run("ip", "link", "add", "near", "netns", name, "type", "veth", "peer", "name", far, "netns", hub)
		x.run("ip", "-n", hub, "link", "set", far, "master", "hub", "up")
		x.run("ip", "-n", name, "addr", "add", x.address(i)+"/24", "dev", "near")
		x.run("ip", "-n", name, "link", "set", "near", "up")
		x.names = append(x.names, name)
	}
	return x
}

// address is of the range that RFC 5737 sets aside for documentation.
func (x *islands) address(i int) string { return fmt.Sprintf("192.0.2.%d", i+1) }

func (x *islands) add(name string) {
	x.t.Helper()
	x.run("ip", "netns", "add", name)
	x.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	x.run("ip", "-n", name, "link", "set", "lo", "up")
}

func (x *islands) run(words ...string) {
	x.t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		x.t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

// cut loses all packets between a namespace and the others; heal ends it.
func (x *islands) cut(name string) {
	x.t.Helper()
	x.run("ip", "netns", "exec", name, "nft", "add", "table", "inet", "fault")
	for hook, device := range map[string]string{"input": "iifname", "output": "oifname"} {
		x.run("ip", "netns", "exec", name, "nft", "add", "chain", "inet", "fault", hook,
			"{ type filter hook "+hook+" priority 0; }")
		x.run("ip", "netns", "exec", name, "nft", "add", "rule", "inet", "fault", hook, device, "near", "drop")
	}
}

func (x *islands) heal(name string) {
	x.t.Helper()
	x.run("ip", "netns", "exec", name, "nft", "delete", "table", "inet", "fault")
}

// The others go on without a leader that is cut off, and it follows them when it is back.
func TestEtcdMemberCutOff(t *testing.T) {
	t.Parallel()
	x := newIslands(t, 3, "e")
	var members []EtcdOptions
	for i, name := range x.names {
		members = append(members, EtcdOptions{Address: x.address(i), Netns: name})
	}
	set := EtcdClusterOf(t, members...)
	old := set.Leader(t)
	old.Ctl(t, "put", "k", "v")
	x.cut(old.opts.Netns)
	now := set.Changed(t, old)
	if now == old {
		t.Fatal("the leader that is cut off leads on")
	}
	now.Ctl(t, "put", "k", "w")
	if out, err := old.TryCtl("--command-timeout", "500ms", "put", "k", "x"); err == nil {
		t.Errorf("the leader that is cut off takes a write: %s", out)
	}
	x.heal(old.opts.Netns)
	set.Agreed(t)
	if got := old.Ctl(t, "get", "--print-value-only", "k"); got != "w\n" {
		t.Errorf("the member that is back: %q", got)
	}
}

// The Sentinels promote a replica in the place of a master that is cut off, and it follows that one when it is back.
func TestSentinelMasterCutOff(t *testing.T) {
	t.Parallel()
	x := newIslands(t, 3, "r")
	var members []RedisOptions
	for i, name := range x.names {
		members = append(members, RedisOptions{
			Address: x.address(i), Netns: name, Dir: Dir(t), Env: []string{"NAME=" + name},
			Lines: []string{"set-proc-title no"}, // the title would be written over the environment
		})
	}
	set := SentinelOf(t, members...)
	old := set.Master(t)
	if old != set.Servers[0] {
		t.Fatal("the master is not the first")
	}
	if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", old.PID())); err != nil || !strings.Contains(string(environ), "NAME="+x.names[0]+"\x00") {
		t.Errorf("the environment lacks what was given: %v", err)
	}
	old.Do(t, "set", "k", "v")
	x.cut(old.opts.Netns)
	now := set.Changed(t, old)
	now.Do(t, "set", "k", "w")
	if err := set.Whole(); err == nil {
		t.Error("a set without its first server is whole")
	}
	x.heal(old.opts.Netns)
	Eventually(t, "the set is whole", func() bool { return set.Whole() == nil })
	if got := old.Do(t, "get", "k"); got != "w" {
		t.Errorf("the server that is back: %q", got)
	}
	for i := range x.names {
		if !strings.Contains(set.URL(), x.address(i)) {
			t.Errorf("the URL %s does not name %s", set.URL(), x.address(i))
		}
	}
}

func TestConsulServerCutOff(t *testing.T) {
	t.Parallel()
	x := newIslands(t, 3, "c")
	certs := NewCertificates(t, x.address(0), x.address(1), x.address(2))
	var members []ConsulOptions
	for i, name := range x.names {
		members = append(members, ConsulOptions{Address: x.address(i), Netns: name, TLS: certs})
	}
	set := ConsulClusterOf(t, members...)
	old := set.Leader(t)
	old.API(t, "PUT", "/v1/kv/k", "v")
	x.cut(old.opts.Netns)
	now := set.Changed(t, old)
	if now == old {
		t.Fatal("the leader that is cut off leads on")
	}
	now.API(t, "PUT", "/v1/kv/k", "w")
	x.heal(old.opts.Netns)
	set.Agreed(t)
	if got := old.API(t, "GET", "/v1/kv/k?raw", ""); got != "w" {
		t.Errorf("the server that is back: %q", got)
	}
	if i := slices.Index(set.Members, old); !strings.Contains(set.URL(), x.address(i)) {
		t.Errorf("the URL %s does not name %s", set.URL(), x.address(i))
	}
}

func TestZooKeeperMemberCutOff(t *testing.T) {
	t.Parallel()
	x := newIslands(t, 3, "z")
	var members []ZooKeeperOptions
	for i, name := range x.names {
		members = append(members, ZooKeeperOptions{Address: x.address(i), Netns: name})
	}
	set := ZooKeeperEnsembleOf(t, members...)
	old := set.Leader(t)
	put(t, old, "/k", "v")
	x.cut(old.opts.Netns)
	now := set.Changed(t, old)
	if now == old {
		t.Fatal("the leader that is cut off leads on")
	}
	put(t, now, "/k", "w")
	if err := old.Answers(); err == nil {
		t.Error("the leader that is cut off gives a session")
	}
	x.heal(old.opts.Netns)
	set.Agreed(t)
	if n, err := old.Get("/k"); err != nil || n.Data != "w" {
		t.Errorf("the member that is back: %+v, %v", n, err)
	}
}
