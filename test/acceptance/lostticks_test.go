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

// Whoever comes first after the loss comes for the next tick: that one tells of it, and runs its own.
func TestLossIsToldByTheNextTick(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	onEveryStore(t, func(t *testing.T, b *bed) {
		w, run := b.leads(forTick(tick)...)
		b.machineDies(w, run)
		b.isShownLost(run.token)
		log := filepath.Join(b.dir, "ticks.log")
		a := b.run(forTick(nextTick), shortJob(log)...)
		if a.code != 0 || a.stdout == "" || a.warnings() != 1 || !strings.Contains(a.stderr, "lost") {
			t.Errorf("the next tick: %v, want a run and one warning", a)
		}
		b.run(forTick(tick), shortJob(log)...).is(t, "the lost tick", 76)
		b.run(forTick(nextTick), shortJob(log)...).is(t, "the next tick again", 0)
		if all := readTicks(t, log); len(all) != 1 {
			t.Errorf("the runs were %v, want one", all)
		}
	})
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

// Without a standby the run for the next tick runs the lost one first, and then its own, whose code is its own.
func TestNextTickRunsTheLostOneFirst(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for name, codes := range map[string][2]int{"the lost one fails": {5, 0}, "its own fails": {0, 7}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEveryStore(t, func(t *testing.T, b *bed) {
				w, run := b.leads(forTick(tick, "--on-lost", "rerun")...)
				b.machineDies(w, run)
				b.isShownLost(run.token)
				log := filepath.Join(b.dir, "ticks.log")
				line := fmt.Sprintf("%s; test $LEADERRUN_TICK_UNIX = %d && exit %d; exit %d", shortestJob(log)[2], tick, codes[0], codes[1])
				a := b.run(forTick(nextTick, "--on-lost", "rerun"), "sh", "-c", line)
				if a.code != codes[1] {
					t.Errorf("%v, want its own code %d", a, codes[1])
				}
				all := readTicks(t, log)
				if len(all) != 2 || all[0].tick != tick || all[1].tick != nextTick || all[0].attempt != 2 || all[1].attempt != 1 {
					t.Fatalf("the runs were %v, want the second attempt of %d, then %d", all, tick, nextTick)
				}
				if all[0].token <= run.token || all[1].token <= all[0].token {
					t.Errorf("tokens %d, %d, %d do not grow", run.token, all[0].token, all[1].token)
				}
			})
		})
	}
}

// The machine of a run is cut off for good, and goes on living. Its run is dead before its lease can have run out; the
// tick is lost for those who skip, and nobody runs it.
func TestTickOfAMachineThatIsCutOff(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, policy := range []string{"skip", "rerun"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			n, url, _ := networkWithRedis(t, "a", "b")
			b := newBed(t, url)
			b.mild = true
			options := forTick(tick, "--on-lost", policy)
			w := b.start(n.Where("a"), options...)
			run := b.follows(w, 0)
			standby := b.start(n.Where("b"), append(options, "--wait", "forever")...)
			n.Drop("a", "input", "output")
			if code := w.wait(); code != 75 {
				t.Errorf("the machine that is cut off ends with %d, want 75: %s", code, w.said())
			}
			gone(t, run)
			if policy == "skip" {
				if code := standby.wait(); code != 76 || !strings.Contains(standby.said(), "lost") {
					t.Errorf("the standby ends with %d, want 76 and the loss told: %s", code, standby.said())
				}
				if now := b.last(); now.token != run.token {
					t.Errorf("the tick ran again, with token %d", now.token)
				}
				return
			}
			if again := b.follows(standby, run.token); again.attempt != 2 || again.tick != tick {
				t.Errorf("attempt %d of tick %d, want the second of %d", again.attempt, again.tick, tick)
			}
		})
	}
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

// The store refuses to hear of the end, because the job was given to somebody else meanwhile: 75, and the tick stays
// lost. On file nobody is given the job while a process of the run lives.
func TestEndThatIsRefused(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	onServers(t, func(t *testing.T, b *bed) {
		mark := filepath.Join(b.dir, "mark")
		words := append([]string{binary, "run", "--backend", b.backend, "--ttl", b.ttl.String()}, forTick(tick)...)
		w := launch(t, append(words, append([]string{"job"}, untilGone(mark)...)...)...)
		waitForFile(t, mark)
		w.signal(syscall.SIGSTOP) // it does not see how the lease goes
		if a := b.ask("break", "--holder-is-dead", "job"); a.code != 0 {
			t.Fatalf("break: %v", a)
		}
		log := filepath.Join(b.dir, "ticks.log")
		if a := b.run(forTick(nextTick), shortJob(log)...); a.code != 0 || a.stdout == "" {
			t.Errorf("the next tick: %v", a)
		}
		remove(t, mark)
		w.signal(syscall.SIGCONT)
		if code := w.wait(); code != 75 {
			t.Errorf("the run whose job was given away ends with %d, want 75: %s", code, w.said())
		}
		b.run(forTick(tick), shortJob(log)...).is(t, "its tick", 76)
		if all := readTicks(t, log); len(all) != 1 {
			t.Errorf("the runs were %v, want one", all)
		}
	})
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
