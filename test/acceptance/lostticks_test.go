package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// The tick of these tests, and the one after it: what is lost has no date.
const (
	tick     = 1000000000
	nextTick = tick + 60
)

func forTick(tick int, more ...string) []string {
	return append([]string{"--tick", fmt.Sprint(tick)}, more...)
}

// leads starts a run that beats until it is killed, and returns its wrapper and what beats.
func (b *bed) leads(options ...string) (*wrapper, runSpan) {
	b.t.Helper()
	before := b.last().token
	w := b.start(nil, options...)
	return w, b.follows(w, before)
}

// follows waits until a run later than the given token has begun.
func (b *bed) follows(w *wrapper, after int64) (span runSpan) {
	b.t.Helper()
	servers.Eventually(b.t, "a run has begun", func() bool {
		span = b.last()
		if span.token <= after && w.ended() {
			b.t.Fatalf("leaderrun ended with code %d: %s", w.code(), w.said())
		}
		return span.token > after
	})
	return span
}

// machineDies ends wrapper, guardian and the whole run at once, in an order in which none of them can still act on the
// end of another.
func (b *bed) machineDies(w *wrapper, run runSpan) {
	b.t.Helper()
	all := []int{w.pid(), w.guardian()}
	for pid := range run.pids {
		if isOf(pid, run.token) {
			all = append(all, pid)
		}
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	gone(b.t, run)
}

// shown is an object of `status --json` and of `history --json`.
type shown struct {
	State     string
	Tick      string
	TickState string `json:"tick_state"`
	Attempt   int
	Token     int64
}

// show asks for the job's objects.
func (b *bed) show(command string) []shown {
	b.t.Helper()
	a := b.ask(command, "--json", "job")
	var objects []shown
	if err := json.Unmarshal([]byte(a.stdout), &objects); err != nil || a.code != 0 {
		b.t.Fatalf("%s: %v: %v", command, err, a)
	}
	return objects
}

// isShownLost waits until status and history show the tick of a token as lost: nobody needs to claim for that.
func (b *bed) isShownLost(token int64) {
	b.t.Helper()
	servers.Eventually(b.t, "the tick is shown as lost", func() bool { return b.show("status")[0].TickState == "lost" })
	h := b.show("history")
	i := slices.IndexFunc(h, func(e shown) bool { return e.Token == token })
	if i < 0 || h[i].State != "lost" {
		b.t.Errorf("the history shows %+v: want the run of token %d lost", h, token)
	}
}

// The machine of a run dies in its middle. With skip its tick is lost: shown as such at once, told by exactly one of
// those who come for it, and never run again.
func TestSkippedTickOfADeadMachine(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	onEveryStore(t, func(t *testing.T, b *bed) {
		w, run := b.leads(forTick(tick)...)
		b.machineDies(w, run)
		b.isShownLost(run.token)

		log := filepath.Join(b.dir, "ticks.log")
		told := b.comeTogether(t, 6, 76, forTick(tick), log)
		told += b.comeTogether(t, 3, 76, forTick(tick, "--on-lost", "rerun"), log)
		if told != 1 {
			t.Errorf("the loss was told %d times, want once", told)
		}
		b.run(forTick(nextTick), shortJob(log)...).is(t, "the next tick", 0)
		b.run(forTick(tick), shortJob(log)...).is(t, "the lost tick, after the next one", 76)
		if all := readTicks(t, log); len(all) != 1 || all[0].tick != nextTick || all[0].token <= run.token {
			t.Errorf("the runs were %v, want that of the next tick", all)
		}
		if h := b.show("history"); h[0].State != "done" || h[1].State != "lost" {
			t.Errorf("the history shows %+v", h)
		}
	})
}

// comeTogether lets n hosts come for a lost tick at once, and returns how many warnings they gave.
func (b *bed) comeTogether(t *testing.T, n, code int, options []string, log string) (told int) {
	t.Helper()
	answers := make([]answer, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { answers[i] = b.run(options, shortJob(log)...) })
	}
	running.Wait()
	for _, a := range answers {
		if a.code != code || a.stdout != "" {
			t.Errorf("%v, want code %d and no run", a, code)
		}
		if n := a.warnings(); n > 0 {
			told += n
			if !strings.Contains(a.stderr, "lost") {
				t.Errorf("the warning is %q", a.stderr)
			}
		}
	}
	return told
}

// With rerun a standby runs the tick again, with a higher token and as the next attempt. When as many machines have
// died as there are attempts, it is lost for good, which is told once.
func TestRerunTickOfDeadMachines(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	onEveryStore(t, func(t *testing.T, b *bed) {
		options := forTick(tick, "--on-lost", "rerun", "--max-attempts", "2")
		w, first := b.leads(options...)
		standby := b.start(nil, options...)
		b.machineDies(w, first)
		second := b.follows(standby, first.token)
		if first.attempt != 1 || second.attempt != 2 || second.tick != tick {
			t.Errorf("attempt %d of tick %d after attempt %d", second.attempt, second.tick, first.attempt)
		}
		b.machineDies(standby, second)
		b.isShownLost(second.token)
		log := filepath.Join(b.dir, "ticks.log")
		if told := b.comeTogether(t, 4, 76, options, log); told != 1 {
			t.Errorf("the loss was told %d times, want once", told)
		}
		if all := readTicks(t, log); len(all) != 0 {
			t.Errorf("the tick ran a third time: %v", all)
		}
	})
}

// The end of a tick's run cannot be told to the store: 75, though the command went well, and never done.
func TestEndThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, s := range stores[1:] { // a folder does not fall silent
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			addr, url := s.start(t)
			proxy := servers.NewProxy(t, addr)
			b := newBed(t, url(addr))
			b.ttl, b.mild = s.ttl, true
			silent := *b
			silent.backend = url(proxy.Addr())
			mark := filepath.Join(b.dir, "mark")
			over := make(chan answer)
			go func() {
				over <- silent.run(forTick(tick), untilGone(mark)...)
			}()
			waitForFile(t, mark)
			proxy.DropAll(true)
			remove(t, mark)
			if a := <-over; a.code != 75 || a.warnings() != 1 {
				t.Errorf("%v, want code 75 and one line", a)
			}
			servers.Eventually(t, "the tick is shown as lost", func() bool { return b.show("status")[0].TickState == "lost" })
			log := filepath.Join(b.dir, "ticks.log")
			if told := b.comeTogether(t, 2, 76, forTick(tick), log); told != 1 {
				t.Errorf("the loss was told %d times, want once", told)
			}
		})
	}
}

// untilGone is a command that makes a file and ends well when that is gone.
func untilGone(mark string) []string {
	return []string{"sh", "-c", "echo >" + mark + "; while test -e " + mark + "; do sleep 0.01; done"}
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	servers.Eventually(t, "the command has begun", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
