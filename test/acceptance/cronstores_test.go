package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Three daemons run one file: each tick of a job runs once, on one of them. The daemon that runs the other job is killed, and
// another one runs that tick again. On Redis and etcd more happens to them, in TestCronOfThreeHostsInTrouble.
func TestThreeDaemons(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	others := slices.DeleteFunc(slices.Clone(stores), func(s store) bool { return s.name == "redis" || s.name == "etcd" })
	onStores(t, others, func(t *testing.T, b *bed) {
		log, daemons := filepath.Join(b.dir, "ticks.log"), map[string]*wrapper{}
		file := threeDaemonsFile(b, log)
		for _, host := range cronHosts {
			daemons[host] = launch(t, binary, "cron", "--backend", b.backend, file)
		}
		runsAfter := func(token int64) (run runSpan) {
			t.Helper()
			servers.Eventually(t, "the job runs", func() bool {
				run = b.last()
				return run.token > token
			})
			return run
		}
		ticksRun := func(n int) []tickLine {
			t.Helper()
			servers.Eventually(t, fmt.Sprint(n, " ticks have run"), func() bool { return len(readTicks(t, log)) >= n })
			return readTicks(t, log)
		}
		status := []string{binary, "status", "--json", "--backend", b.backend}
		first := runsAfter(0)
		everyTick(t, ticksRun(3), 0)

		host := runsOn(t, status, "job", daemons)
		daemons[host].signal(syscall.SIGKILL)
		daemons[host].wait()
		delete(daemons, host)
		before := len(readTicks(t, log))
		second := runsAfter(first.token)
		if second.tick != first.tick || second.attempt != first.attempt+1 {
			t.Errorf("attempt %d of tick %d ran after attempt %d of tick %d", second.attempt, second.tick, first.attempt, first.tick)
		}
		runsOn(t, status, "job", daemons)
		everyTick(t, ticksRun(before+2), 1)
	})
}

// threeDaemonsFile writes a job file: "often" writes down each of its ticks, every one of which is to be completed; "job" runs
// until it is ended.
func threeDaemonsFile(b *bed, log string) string {
	b.t.Helper()
	file := filepath.Join(b.dir, "jobs.yaml")
	text := fmt.Sprintf(`timezone: UTC
defaults: {ttl: %v, on_lost: rerun}
jobs:
  often: {every: 1s, max_attempts: 100, overlap: wait, catch_up: 1000, command: [sh, -c, %q]}
  job: {every: 1s, command: %s}
`, b.ttl, shortJob(log)[2], flow(b.witness(forever)))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// everyTick fails the test unless each tick from the first to the last has run, one after the other, and at most so many of
// them again as were lost with their hosts.
func everyTick(t *testing.T, all []tickLine, lost int) {
	t.Helper()
	for i, l := range all[1:] {
		was := all[i]
		again := l.tick == was.tick && l.attempt == was.attempt+1
		if again {
			lost--
		}
		if l.token <= was.token || lost < 0 || !again && l.tick != was.tick+1 {
			t.Errorf("%+v ran after %+v", l, was)
		}
	}
}
