package acceptance

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// execOutput runs a program and returns what it says.
func execOutput(words ...string) (string, error) {
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return string(out), nil
}

// networkWithRedis is a network of hosts and of one more, "s", on which Redis runs.
func networkWithRedis(t *testing.T, names ...string) (n *hosts.Network, url string, server *servers.Process) {
	t.Helper()
	servers.Require(t, "redis")
	n = hosts.NewNetwork(t, append([]string{"s"}, names...)...)
	dir := servers.Dir(t)
	words := append(n.Where("s"), "redis-server", "--port", "6379", "--protected-mode", "no", "--save", "", "--dir", dir)
	server = servers.Start(t, dir, words[0], words[1:]...)
	return n, "redis://" + n.Address("s") + "/?longest-ttl=" + ttl.String(), server
}

// A host whose packets vanish without a reset ends its run before another host can have the job, and does not
// disturb it when the network is back.
func TestNetworkDropsPackets(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	n, url, _ := networkWithRedis(t, "a", "b")
	b := newBed(t, url)
	w := b.start(n.Where("a"), "--backend-wait", "1m")
	old := b.beats(w, 0)
	standby := b.start(n.Where("b"), "--wait", "forever")
	n.Drop("a", "input", "output")
	struck := boottime.Now()

	if code := w.wait(); code != 75 {
		t.Errorf("exit code %d, want 75: %s", code, w.said())
	}
	for _, s := range b.verdict() {
		if lived := s.lived(struck); s.token == old.token && lived >= ttl {
			t.Errorf("the run lived on for %v after the cut: a lease of %v had run out", lived, ttl)
		}
	}
	gone(t, old)
	next := b.beats(standby, old.token)
	n.Heal("a")
	late := b.start(n.Where("a"), "--backend-wait", "1m")
	if code := late.wait(); code != 0 {
		t.Errorf("the host that is back ends with %d, want 0 because the job is held: %s", code, late.said())
	}
	if now := b.last(); now.token != next.token {
		t.Errorf("token %d runs, want %d", now.token, next.token)
	}
	standby.signal(syscall.SIGTERM)
}
