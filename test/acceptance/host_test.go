package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

const (
	// ttl is the shortest lease there is: most tests wait for it to run out.
	ttl = 5 * time.Second
	// longTTL leaves time for what happens to a server within a lease, an election or a restart, also on a machine that has
	// much else to do. It is renewed every 15 seconds.
	longTTL = 45 * time.Second
)

// bed is one job with its witness, run by several hosts.
type bed struct {
	t       *testing.T
	dir     string // of the witness, among others
	backend string
	mild    bool // the witness is not stubborn
	ttl     time.Duration
}

func newBed(t *testing.T, backend string) *bed {
	t.Helper()
	b := &bed{t: t, dir: servers.Dir(t), backend: backend, ttl: ttl}
	t.Cleanup(func() { b.verdict() })
	return b
}

// job is the name of a bed's job.
const job = "job"

// witness is the job's command.
func (b *bed) witness(life time.Duration) []string {
	if b.mild {
		return witnessOf(b.dir, job, life)
	}
	return witnessOf(b.dir, job, life, stubborn)
}

func (b *bed) runs() []runSpan    { b.t.Helper(); return runsOf(b.t, b.dir, job) }
func (b *bed) last() runSpan      { b.t.Helper(); return last(b.t, b.dir, job) }
func (b *bed) verdict() []runSpan { b.t.Helper(); return verdict(b.t, b.dir, job) }

// wrapper is one running leaderrun.
type wrapper struct {
	t      *testing.T
	cmd    *exec.Cmd
	output string // the file with what it has said, and its command
	done   chan struct{}
	kill   sync.Once
}

// start starts a wrapper of the job, as one host would. Words before the program's name, such as `ip netns
// exec NAME`, say where.
func (b *bed) start(where []string, options ...string) *wrapper {
	b.t.Helper()
	words := slices.Concat(where, []string{binary, "run", "--log-level", "debug", "--backend", b.backend, "--ttl", b.ttl.String()},
		options, []string{job}, b.witness(forever))
	return launch(b.t, words...)
}

// launch starts a leaderrun in a session of its own, and ends it with the test.
func launch(t *testing.T, words ...string) *wrapper {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	w := &wrapper{t: t, cmd: exec.Command(words[0], words[1:]...), output: output.Name(), done: make(chan struct{})}
	w.cmd.Stdout, w.cmd.Stderr = output, output
	// A session of its own: what happens to one host does not happen to another, nor to the test.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		_ = w.cmd.Wait()
	}()
	t.Cleanup(func() {
		w.end()
		if t.Failed() {
			t.Logf("process %d: %s\n%s", w.pid(), strings.Join(words, " "), end(w.said()))
		}
	})
	return w
}

// end is the end of what may be long.
func end(text string) string { return text[max(0, len(text)-8000):] }

// holder starts a wrapper and waits until its witness beats, orphan included, and the wrapper has heard that it runs. On a busy
// machine a cluster that has just been started may need more than the usual five seconds for its first answer.
func (b *bed) holder() *wrapper {
	b.t.Helper()
	w := b.start(nil, "--backend-wait", "1m")
	b.beats(w, 0)
	servers.Eventually(b.t, "the wrapper has heard of the start", func() bool {
		return w.ended() || strings.Contains(w.said(), "command started\n")
	})
	return w
}

// beats waits until a run later than the given token beats with all its processes, and returns it.
func (b *bed) beats(w *wrapper, after int64) runSpan {
	b.t.Helper()
	var span runSpan
	servers.Eventually(b.t, "a run beats", func() bool {
		if w != nil && w.ended() {
			b.t.Fatalf("leaderrun ended with code %d: %s", w.code(), w.said())
		}
		span = b.last()
		return span.token > after && len(span.pids) >= 3
	})
	return span
}

// newcomers starts a wrapper without a wait again and again, as crontabs do, until the test ends. None of
// them may run the job while somebody else does; the witness tells.
func (b *bed) newcomers() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Second): // shorter than any lease
				words := []string{"run", "--backend", b.backend, "--ttl", b.ttl.String(), "--backend-wait", "200ms", job}
				cmd := exec.Command(binary, append(words, b.witness(100*time.Millisecond)...)...)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				_ = cmd.Run()
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); <-done })
	b.t.Cleanup(stop)
	return stop
}

// said is what the wrapper has said until now, and its command.
func (w *wrapper) said() string {
	w.t.Helper()
	text, err := os.ReadFile(w.output)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// survives waits until the run of a token, the only one so far, has its lease renewed once more.
func (b *bed) survives(w *wrapper, token int64) {
	b.t.Helper()
	if !b.renewed(w) {
		b.t.Fatalf("leaderrun ended with code %d: %s", w.code(), w.said())
	}
	b.only(token)
}

// only fails the test if there was another run than that of a token.
func (b *bed) only(token int64) {
	b.t.Helper()
	if spans := b.verdict(); len(spans) != 1 || spans[0].token != token {
		b.t.Fatalf("%d runs, want the one of token %d", len(spans), token)
	}
}

// renewed waits until a run has its lease renewed once more, or has ended because that was lost.
func (b *bed) renewed(w *wrapper) bool {
	b.t.Helper()
	renewals := func() int { return strings.Count(w.said(), "lease renewed\n") }
	before := renewals()
	servers.Eventually(b.t, "the lease is renewed", func() bool { return w.ended() || renewals() > before })
	if w.ended() && w.code() != 75 {
		b.t.Errorf("exit code %d, want 75: %s", w.code(), w.said())
	}
	return !w.ended()
}

func (w *wrapper) signal(sig syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		w.t.Fatalf("kill -%d: %v", sig, err)
	}
}

// pid is the wrapper itself, also where another program started it.
func (w *wrapper) pid() int { return w.cmd.Process.Pid }

// guardian returns the pid of the run's guardian.
func (w *wrapper) guardian() int {
	w.t.Helper()
	for _, pid := range hosts.Children(w.t, w.pid()) {
		if hosts.Comm(pid) == "lr-guard" {
			return pid
		}
	}
	w.t.Fatalf("process %d has no guardian", w.pid())
	return 0
}

func (w *wrapper) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// wait returns the exit code as a shell shows it, when the wrapper has ended.
func (w *wrapper) wait() int {
	w.t.Helper()
	servers.Eventually(w.t, "leaderrun ends", w.ended)
	return w.code()
}

func (w *wrapper) code() int {
	status, _ := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// end ends a wrapper that the test left behind, and with it its run. By its handle: the number of one that has ended may
// be a server's of another test by now.
func (w *wrapper) end() {
	w.kill.Do(func() {
		_ = w.cmd.Process.Signal(syscall.SIGCONT)
		_ = w.cmd.Process.Kill()
	})
	servers.Eventually(w.t, "leaderrun is gone", w.ended)
}

// gone waits until none of a run's processes is alive.
func gone(t testing.TB, span runSpan) {
	t.Helper()
	servers.Eventually(t, "every process of the run is dead", func() bool {
		for pid := range span.pids {
			if hosts.Alive(pid) && isOf(pid, span.token) {
				return false
			}
		}
		return true
	})
}

// isOf tells a process of a run from one that has got its number since: there are 32,768 of them on some machines, and the
// tests need them all within a minute or two.
func isOf(pid int, token int64) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(environ, fmt.Appendf(nil, "LEADERRUN_TOKEN=%d\x00", token))
}
