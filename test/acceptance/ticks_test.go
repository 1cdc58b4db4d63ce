package acceptance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// tickLine is what a short job writes down of its run.
type tickLine struct {
	tick, token int64
	attempt     int
}

// shortJob is a command that writes one line, says one word, and is over in ten milliseconds.
func shortJob(log string) []string {
	return []string{"sh", "-c", `echo "$LEADERRUN_TICK_UNIX $LEADERRUN_TOKEN $LEADERRUN_ATTEMPT" >>` + log + `; echo ran; sleep 0.01`}
}

// readTicks returns what the runs wrote, in their order.
func readTicks(t *testing.T, log string) []tickLine {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []tickLine
	for line := range strings.Lines(string(text)) {
		var l tickLine
		if _, err := fmt.Sscan(line, &l.tick, &l.token, &l.attempt); err != nil {
			t.Fatalf("%s: %q: %v", log, line, err)
		}
		all = append(all, l)
	}
	return all
}

// onceEach fails the test if a tick ran twice or out of order, or a token did not grow.
func onceEach(t *testing.T, all []tickLine) {
	t.Helper()
	for i, l := range all {
		if l.attempt != 1 {
			t.Errorf("tick %d ran as attempt %d", l.tick, l.attempt)
		}
		if i == 0 {
			continue
		}
		if was := all[i-1]; l.tick <= was.tick || l.token <= was.token {
			t.Errorf("tick %d with token %d ran after tick %d with token %d", l.tick, l.token, was.tick, was.token)
		}
	}
}

// hostCount is how many have the same crontab.
const hostCount = 20

// Twenty hosts have the same line for a job that is over in 10 ms. Their clocks differ by up to 50 s, so each comes for
// the tick at a moment of its own: some all at once, some long after the job has ended. One of them runs it, the others
// have nothing to say and end with 0; and so with the next tick. A crontab's line on a host whose clock is 50 s ahead is
// a run for a tick that lies 50 s ahead of the server's clock: the tick is given, because the machine has one clock.
func TestTwentyHostsRunATickOnce(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	onEveryStore(t, func(t *testing.T, b *bed) {
		log := filepath.Join(b.dir, "ticks.log")
		now := time.Now().Unix()
		for i, tick := range []int64{now - 50, now + 50} { // clocks that are slow, clocks that are fast
			comeForTick(t, b, []string{"--tick", strconv.FormatInt(tick, 10)}, log)
			all := readTicks(t, log)
			if len(all) != i+1 || all[i].tick != tick {
				t.Fatalf("after the tick %d the runs were %v", tick, all)
			}
			onceEach(t, all)
		}
	})
}

// comeForTick lets every host come for a tick: half of them at random moments, and when the job is over, the others.
func comeForTick(t *testing.T, b *bed, options []string, log string) {
	t.Helper()
	const together, within = hostCount / 2, time.Second
	answers := make([]answer, hostCount)
	var running sync.WaitGroup
	for i := range together {
		running.Go(func() {
			time.Sleep(rand.N(within)) // the clocks of hosts
			answers[i] = b.run(options, shortJob(log)...)
		})
	}
	running.Wait()
	for i := together; i < hostCount; i++ {
		answers[i] = b.run(options, shortJob(log)...)
	}
	ran := 0
	for i, a := range answers {
		a.is(t, fmt.Sprint("host ", i), 0)
		if a.stdout != "" {
			ran++
		}
	}
	if ran != 1 {
		t.Errorf("%d hosts showed the output of the job, want one", ran)
	}
}

// many is how many ticks run at speed on the store that is fastest over a network, and fewer how many on the others.
const (
	many  = 200
	fewer = 30
)

// Three hosts go through the same ticks as fast as they can: each tick runs exactly once, in order, with a
// token that grows.
func TestManyTicks(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	onEveryStore(t, func(t *testing.T, b *bed) {
		const racers, stretch = 3, 10 // the record answers for the last twenty runs: nobody falls further behind
		n := fewer
		if strings.HasPrefix(b.backend, "redis") {
			n = many
		}
		log := filepath.Join(b.dir, "ticks.log")
		first := time.Now().Unix() - many
		for begin := 0; begin < n; begin += stretch {
			var running sync.WaitGroup
			for range racers {
				running.Go(func() {
					for i := begin; i < begin+stretch; i++ {
						a := b.run([]string{"--wait", "forever", "--tick", strconv.FormatInt(first+int64(i), 10)}, shortestJob(log)...)
						a.is(t, fmt.Sprint("tick ", i), 0)
					}
				})
			}
			running.Wait()
			if t.Failed() {
				return
			}
		}
		all := readTicks(t, log)
		onceEach(t, all)
		if len(all) != n || all[0].tick != first {
			t.Errorf("%d runs of %d ticks", len(all), n)
		}
	})
}

// shortestJob is a command that writes one line.
func shortestJob(log string) []string {
	return []string{"sh", "-c", `echo "$LEADERRUN_TICK_UNIX $LEADERRUN_TOKEN $LEADERRUN_ATTEMPT" >>` + log}
}
