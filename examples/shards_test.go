package examples

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Three hosts divide a night's invoices, and one of them is killed half-way through its shards: every invoice is sent once, each shard
// is done, and the hosts that are left know it.
func TestShards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const customers = 160
	w.tool("list-customers", fmt.Sprintf(`i=$4; while test $i -lt %d; do echo $i; i=$((i + $2)); done`, customers))
	w.tool("send-invoice",
		`mkdir $DIR/$2 2>/dev/null || exit 0 # it has this number`,
		`echo "sent $3" >>$DIR/log`,
		`case $HOST in dies) echo "$LEADERRUN_SHARD" >>$DIR/half-done; exec sleep 1000;; esac`,
		`while ! test -e $DIR/go; do sleep 0.01; done`)
	script := absolute(t, "shards/invoices.sh")

	dies := w.start(w.with("HOST=dies"), "", script)
	servers.Eventually(t, "two shards are half done", func() bool { return strings.Count(w.read("half-done"), "\n") == 2 })
	var hosts []*host
	for _, name := range []string{"second", "third"} {
		hosts = append(hosts, w.start(w.with("HOST="+name), "", script))
	}
	servers.Eventually(t, "six shards run", func() bool { return strings.Count(w.read("log"), "sent ") == 6 })
	if err := syscall.Kill(dies.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.write("go", "")
	for _, h := range hosts {
		h.expect(0, "")
	}

	sent := strings.Fields(strings.ReplaceAll(w.read("log"), "sent ", ""))
	slices.Sort(sent)
	if n := len(slices.Compact(slices.Clone(sent))); n != customers || len(sent) != customers {
		t.Errorf("%d invoices to %d customers, want one to each of %d", len(sent), n, customers)
	}
	if code, status := w.start(w.env, "", bin+"/leaderrun", "status", "invoices").wait(); code != 0 || !strings.Contains(status, " of invoices: 16 of 16 done\n") {
		t.Errorf("status ends with %d: %s", code, status)
	}
	_, history := w.start(w.env, "", bin+"/leaderrun", "history", "invoices").wait()
	if lost := strings.Count(history, " lost "); lost != 2 {
		t.Errorf("%d runs are lost, want the two of the host that died:\n%s", lost, history)
	}
}
