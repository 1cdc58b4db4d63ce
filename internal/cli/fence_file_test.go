package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// fileRun is a `leaderrun fence file` of its own, with a content that can be told from every other one.
type fileRun struct {
	*exec.Cmd
	token int64
	stdin io.WriteCloser
	said  bytes.Buffer
}

// fenced is what a run with a token writes: a line with the token again and again.
func fenced(token int64) []byte {
	line := fmt.Appendf(nil, "%019d\n", token)
	return bytes.Repeat(line, 15_000)
}

func startFileRun(t *testing.T, path string, token int64) *fileRun {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &fileRun{token: token, Cmd: &exec.Cmd{Path: self, Args: []string{"leaderrun", "fence", "file", "--lock-wait", "1m", path}}}
	r.Env = append(os.Environ(), "HOME="+filepath.Dir(path), "GORACE=atexit_sleep_ms=0", "LEADERRUN_TOKEN="+strconv.FormatInt(token, 10))
	r.Stderr = &r.said
	if r.stdin, err = r.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// feed gives the run the first bytes of its content, all of it if there are no more. A run that is refused does not read.
func (r *fileRun) feed(length int) {
	all := fenced(r.token)
	_, _ = r.stdin.Write(all[:min(length, len(all))])
	if length >= len(all) {
		_ = r.stdin.Close()
	}
}

// end waits for the end of the run and returns its exit code, -1 after a signal.
func (r *fileRun) end() int {
	_ = r.stdin.Close()
	_ = r.Wait()
	return r.ProcessState.ExitCode()
}

// witness is a reader of the file, and of the fence's state.
type witness struct {
	path     string
	content  int64 // the highest token seen in the file
	fence    int64 // the one in the state
	contents int
}

// look says what is wrong with what there is to read.
func (w *witness) look() error {
	text, err := os.ReadFile(w.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		token, err := strconv.ParseInt(string(text[:min(19, len(text))]), 10, 64)
		if err != nil || !bytes.Equal(text, fenced(token)) {
			return fmt.Errorf("%d bytes that nobody wrote whole: %.40q", len(text), text)
		}
		if token < w.content {
			return fmt.Errorf("the content of run %d came after that of run %d", token, w.content)
		}
		if token > w.content {
			w.contents++
		}
		w.content = token
	}
	state, err := os.ReadFile(filepath.Join(filepath.Dir(w.path), ".report.fence"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	token, parsed := strconv.ParseInt(strings.TrimSuffix(string(state), "\n"), 10, 64)
	if err != nil || parsed != nil || token < w.fence || token < w.content {
		return fmt.Errorf("the fence is at %q, where it was at %d, and the content is that of run %d: %w", state, w.fence, w.content, errors.Join(err, parsed))
	}
	w.fence = token
	return nil
}

// watchFile looks again and again until the returned function is called.
func watchFile(t *testing.T, path string) (stop func() *witness) {
	t.Helper()
	w := &witness{path: path}
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if err := w.look(); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-over:
				return
			default:
			}
		}
	}()
	return func() *witness {
		close(over)
		<-gone
		return w
	}
}

// Hazard: the program is killed at some moment, and leaves half a file, a fence that is lower than it was, or nothing that
// the next run can use.
func TestFenceFileKilled(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	path := filepath.Join(t.TempDir(), "report")
	stop := watchFile(t, path)
	const runs = 120
	random := rand.New(rand.NewPCG(1, 2))
	written := 0
	for token := int64(1); token <= runs && !t.Failed(); token++ {
		r := startFileRun(t, path, token)
		switch random.IntN(4) {
		case 0: // let it be
			r.feed(1 << 20)
			if code := r.end(); code != 0 {
				t.Errorf("run %d after those that were killed ends with %d: %s", token, code, &r.said)
			}
			written++
			continue
		case 1: // at its start, or while it raises the fence
			time.Sleep(rand.N(50 * time.Millisecond))
		case 2: // while it collects
			r.feed(random.IntN(300_000))
		case 3: // while it commits
			r.feed(1 << 20)
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		_ = r.Process.Kill()
		r.end()
	}
	last := startFileRun(t, path, runs+1)
	last.feed(1 << 20)
	if code := last.end(); code != 0 {
		t.Errorf("the last run ends with %d: %s", code, &last.said)
	}
	w := stop()
	if err := w.look(); err != nil || w.content != runs+1 || w.fence != runs+1 {
		t.Errorf("in the end the content is of run %d, the fence at %d: %v", w.content, w.fence, err)
	}
	t.Logf("%d of %d runs were not killed; %d contents were seen", written, runs, w.contents)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*.tmp"))
	if len(left) > 0 || err != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// Hazard: the program is stopped at some moment, a newer run comes and writes, and the older one goes on.
func TestFenceFileStopped(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	path := filepath.Join(t.TempDir(), "report")
	stop := watchFile(t, path)
	const rounds = 20
	random := rand.New(rand.NewPCG(3, 4))
	ends := map[int]int{}
	for i := int64(1); i <= rounds && !t.Failed(); i++ {
		older := startFileRun(t, path, 2*i)
		if random.IntN(2) == 0 {
			older.feed(random.IntN(300_000))
		} else {
			older.feed(1 << 20)
		}
		time.Sleep(rand.N(30 * time.Millisecond))
		_ = older.Process.Signal(syscall.SIGSTOP)
		newer := startFileRun(t, path, 2*i+1)
		ended := make(chan int, 1)
		go func() {
			newer.feed(1 << 20) // which it does not read before it has the lock
			ended <- newer.end()
		}()
		var code int
		select {
		case code = <-ended:
		case <-time.After(300 * time.Millisecond): // the older one may have the lock: then the newer one waits for it
			_ = older.Process.Signal(syscall.SIGCONT)
			code = <-ended
		}
		if code != 0 {
			t.Errorf("the newer run ends with %d: %s", code, &newer.said)
		}
		_ = older.Process.Signal(syscall.SIGCONT)
		oldCode := older.end() // what it has of its content by now is all of it
		if oldCode != 0 && oldCode != codeStale {
			t.Errorf("the older run ends with %d: %s", oldCode, &older.said)
		}
		ends[oldCode]++
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(text, fenced(2*i+1)) {
			t.Errorf("in the end there is %.40q, and not what run %d wrote: %v", text, 2*i+1, err)
		}
	}
	stop()
	t.Logf("the older run ended with these codes so often: %v", ends)
	if ends[codeStale] == 0 {
		t.Error("the older run was never refused")
	}
}

// Hazard: a signal comes when the file has been replaced already. The program ends by it, and says nothing: everybody takes the
// file for the old one.
func TestFenceFileSignaledTooLate(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	path := filepath.Join(t.TempDir(), "report")
	const rounds, enough = 400, 5
	late := 0
	for token := int64(1); token <= rounds && late < enough && !t.Failed(); token++ {
		r := startFileRun(t, path, token)
		before, _ := os.Stat(path)
		go r.feed(1 << 20)
		for {
			now, err := os.Stat(path)
			if err == nil && (before == nil || !os.SameFile(before, now)) {
				break
			}
			time.Sleep(50 * time.Microsecond)
		}
		_ = r.Process.Signal(syscall.SIGTERM)
		_ = r.Wait()
		want := "" // it came when all was over
		if status, _ := r.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			late++
			want = "leaderrun: " + path + " was replaced before the signal\n"
		}
		if r.said.String() != want {
			t.Errorf("%v: it says %q, want %q", r.ProcessState, &r.said, want)
		}
	}
	t.Logf("%d signals came after the rename", late)
}
