// Package examples runs the examples and the commands of the documentation as a user would, against the real
// program.
package examples

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/leaderrun/leaderrun/internal/cli" // go test keeps a result until what it is made of changes: the program is part of that
	"github.com/leaderrun/leaderrun/test/servers"
)

// bin is a folder with nothing but the program under test.
var bin string

func TestMain(m *testing.M) {
	// These tests wait more than they work. -parallel on the command line still counts.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(servers.RunWithProgram(m, func(path string) { bin = filepath.Dir(path) }))
}

// world is what the hosts of one test share: a folder for their files, and a backend.
type world struct {
	t   *testing.T
	dir string
	env []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := servers.Dir(t)
	w := &world{t: t, dir: dir}
	for _, sub := range []string{"home", "tools"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
	}
	w.write("backend", "file://"+dir+"/store\n")
	w.env = []string{
		"HOME=" + dir + "/home", "PATH=" + dir + "/tools:" + bin + ":/usr/bin:/bin", "DIR=" + dir,
		"LEADERRUN_BACKEND_FILE=" + dir + "/backend",
	}
	return w
}

// with returns the environment of a host with more variables.
func (w *world) with(vars ...string) []string { return append(slices.Clone(w.env), vars...) }

// tool makes a program out of the lines of a shell script. It finds the folder of the world in $DIR.
func (w *world) tool(name string, lines ...string) {
	w.t.Helper()
	script := "#!/bin/sh\nDIR=" + w.dir + "\n" + strings.Join(lines, "\n") + "\n"
	// Renamed into place: a program that is open for writing while another test forks cannot be executed.
	w.write("tools/"+name+".new", script)
	install := exec.Command("install", "-m", "755", w.path("tools/"+name+".new"), w.path("tools/"+name))
	if out, err := install.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// read returns what a file holds; one that is not there holds nothing.
func (w *world) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(text)
}

// until waits until a file holds a text.
func (w *world) until(name, text string) {
	w.t.Helper()
	servers.Eventually(w.t, text+" in "+name, func() bool { return strings.Contains(w.read(name), text) })
}

// transcript is what a program says, which a test may read while it says it.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// host is one program that runs as on a host of its own.
type host struct {
	t      *testing.T
	cmd    *exec.Cmd
	output transcript
	done   chan struct{}
	kill   sync.Once
}

// start starts a program of a host.
func (w *world) start(env []string, stdin string, words ...string) *host {
	w.t.Helper()
	h := &host{t: w.t, cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	h.cmd.Env, h.cmd.Dir = env, w.dir
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = strings.NewReader(stdin), &h.output, &h.output
	h.cmd.WaitDelay = 10 * time.Second // what survives it may hold its output
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := h.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(h.done)
		_ = h.cmd.Wait()
	}()
	w.t.Cleanup(h.end)
	return h
}

// end ends a program that the test left behind.
func (h *host) end() {
	h.kill.Do(func() {
		if !h.ended() {
			_ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	<-h.done
}

func (h *host) ended() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// said is all that the program has said until now.
func (h *host) said() string { return h.output.String() }

// says waits until the program has said something: what is written is read a moment later.
func (h *host) says(text string) {
	h.t.Helper()
	servers.Eventually(h.t, "it says "+text, func() bool { return strings.Contains(h.said(), text) })
}

// wait returns the exit code as a shell shows it, and all that was said.
func (h *host) wait() (code int, output string) {
	h.t.Helper()
	servers.Eventually(h.t, strings.Join(h.cmd.Args, " ")+" ends", h.ended)
	status, _ := h.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), h.output.String()
	}
	return status.ExitStatus(), h.output.String()
}

// expect waits for the end and compares.
func (h *host) expect(code int, output string) {
	h.t.Helper()
	if gotCode, gotOutput := h.wait(); gotCode != code || gotOutput != output {
		h.t.Errorf("%s:\nexit code %d, want %d\noutput %q, want %q", strings.Join(h.cmd.Args, " "), gotCode, code, gotOutput, output)
	}
}

// text returns a file of this folder.
func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
