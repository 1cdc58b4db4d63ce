package examples

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// consumersUnit is the packages' unit of one service as it is for the orders.
func consumersUnit(t *testing.T, options string) string {
	t.Helper()
	env := text(t, "consumers/orders.env")
	return strings.NewReplacer("%i", "orders", "$OPTIONS", options, "$COMMAND", setting(t, env, "COMMAND")).Replace(packagedUnit(t, "leaderrun@.service"))
}

// consumers says how many consumers each host runs, by what they have written when they came and went.
func (w *world) consumers() (counts map[string]int, parts int) {
	counts = map[string]int{}
	runs := map[string]string{}
	for line := range strings.Lines(w.read("log")) {
		words := strings.Fields(line)
		if len(words) != 3 { // it is being written
			continue
		}
		what, host, part := words[0], words[1], words[2]
		other, taken := runs[part]
		switch {
		case what == "begin" && taken && !w.dead(other):
			w.t.Errorf("%s begins with part %s, which %s has", host, part, other)
		case what == "begin":
			runs[part] = host
		case other == host:
			delete(runs, part)
		}
	}
	for _, host := range runs {
		if !w.dead(host) {
			counts[host]++
			parts++
		}
	}
	return counts, parts
}

// dead says whether a host was killed.
func (w *world) dead(host string) bool { return w.read("dead."+host) != "" }

// share waits until all parts are consumed, and each host has its share.
func (w *world) share(parts int, want ...int) {
	w.t.Helper()
	servers.Eventually(w.t, fmt.Sprintf("the hosts have %v", want), func() bool {
		counts, running := w.consumers()
		return running == parts && slices.Equal(slices.Sorted(maps.Values(counts)), want)
	})
}

func TestConsumers(t *testing.T) {
	t.Parallel()
	options := setting(t, text(t, "consumers/orders.env"), "OPTIONS")
	unit := consumersUnit(t, "--ttl 5s "+options)
	w := newWorld(t)
	w.tool("consume-orders", "exec 2>/dev/null", `echo "begin $NAME $LEADERRUN_SHARD" >>$DIR/log`, `trap 'echo "end $NAME $LEADERRUN_SHARD" >>$DIR/log; exit 0' TERM`,
		"while :; do sleep 0.1; done")

	one, two := w.service("one", unit), w.service("two", unit)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("one: %s\ntwo: %s\n%s", one.output.String(), two.output.String(), w.read("log"))
		}
	})
	w.share(12, 6, 6)
	for _, m := range []*manager{one, two} {
		m.hears("READY=1\n")
	}
	three := w.service("three", unit)
	w.share(12, 4, 4, 4)

	// Another number of parts is refused, and nobody else notices.
	other := w.service("other", consumersUnit(t, "--ttl 5s --shards 10"))
	if code, said := other.wait(); code != 64 || !strings.Contains(said, "into 12 shards, and this host into 10") {
		t.Errorf("code %d: %s", code, said)
	}

	// One host dies.
	w.write("dead.three", "yes")
	if err := three.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.share(12, 6, 6)

	// systemctl stop
	_ = two.cmd.Process.Signal(syscall.SIGTERM)
	two.expect(0, "") // the consumers' own
	w.share(12, 12)
	_ = one.cmd.Process.Signal(syscall.SIGTERM)
	one.expect(0, "")
	w.share(0)
}
