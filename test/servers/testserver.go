// Package servers starts the real servers that tests need, on free ports of the loopback interface, and
// stands between a client and a server to break the network. It is linked into tests only.
//
// Nothing here sleeps until a server is ready: it is asked. Everything is killed for certain when its test
// ends, and by the kernel if the test's process dies.
package servers

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/waits"
)

// patience is how long what must come may take.
var patience = waits.Patience

// The pauses between two questions of Eventually.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 20 * time.Millisecond
)

// built is where scripts/servers.sh puts the servers that it builds, the same on every system. It is set before
// a test changes the environment.
var built = func() string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "leaderrun", "servers")
}()

// Binary returns the path of a server's program: one that scripts/servers.sh built, which is of the version that
// the tests are made for, or else one of PATH, or else one of PostgreSQL, which Debian keeps elsewhere.
func Binary(name string) (string, error) {
	if path, err := exec.LookPath(filepath.Join(built, name)); err == nil && filepath.IsAbs(path) {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	versions, _ := filepath.Glob(filepath.Join(debianPostgres, "*", "bin", name))
	if len(versions) == 0 {
		return "", err
	}
	return newest(versions), nil
}

// debianPostgres is where Debian's packages have the programs of PostgreSQL's servers, in a folder for each version.
const debianPostgres = "/usr/lib/postgresql"

// newest returns the path in the folder of the highest version. As text, 9.6 would come after 15.
func newest(paths []string) string {
	version := func(path string) float64 {
		folder, _, _ := strings.Cut(strings.TrimPrefix(path, debianPostgres+"/"), "/")
		n, _ := strconv.ParseFloat(folder, 64) // 0 for one that is no number
		return n
	}
	return slices.MaxFunc(paths, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
}

// program is Binary for a test that has asked for it by Require.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := Binary(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// leftToAll is why the short run skips a test.
const leftToAll = "left to make test-all"

// SkipShort leaves a test to the long run: one that takes seconds, or much of the machine.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(leftToAll)
	}
}

// Require skips the test if the programs of a server are missing, or fails it if LEADERRUN_TEST_REQUIRE, a
// list with commas, names the server: a run that must be complete cannot skip in silence. The short run leaves the servers
// that are not quick to the long one.
func Require(t testing.TB, server string) {
	t.Helper()
	if testing.Short() && !catalog[server].quick {
		t.Skipf("%s: %s", leftToAll, server)
	}
	for _, name := range catalog[server].programs {
		if _, err := Binary(name); err == nil {
			continue
		}
		Lack(t, server, name+" is not installed: make servers")
	}
}

// euid is os.Geteuid, but where RequireRoot itself is tested.
var euid = os.Geteuid

// RequireRoot is Require for a test that needs root, too: a name in LEADERRUN_TEST_REQUIRE stands for all that is done
// with that server. what is the subject of "need root".
func RequireRoot(t testing.TB, server, what string) {
	t.Helper()
	Require(t, server)
	if euid() != 0 {
		Lack(t, server, what+" need root")
	}
	if server == "netns" {
		if err := namespaces(); err != nil {
			Lack(t, server, what+" cannot be made here: "+err.Error())
		}
	}
}

// namespaces says why root has no network namespaces: in a container without privileges, or where / is no mount of its own.
var namespaces = sync.OnceValue(func() error {
	name := fmt.Sprintf("lr%d-probe", os.Getpid())
	for _, words := range [][]string{{"add", name}, {"exec", name, "true"}, {"delete", name}} {
		if out, err := exec.Command("ip", append([]string{"netns"}, words...)...).CombinedOutput(); err != nil {
			_ = exec.Command("ip", "netns", "delete", name).Run()
			return fmt.Errorf("ip netns %s: %s", words[0], strings.TrimSpace(string(out)))
		}
	}
	return nil
})

// Lack is the end of a test that cannot have what it needs: a server, or root, or cgroup, cgroup1 and make, by which
// LEADERRUN_TEST_REQUIRE names what else a machine may lack.
func Lack(t testing.TB, need, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("LEADERRUN_TEST_REQUIRE"), ","), need) {
		t.Fatalf("%s, and LEADERRUN_TEST_REQUIRE names %s", why, need)
	}
	t.Skipf("%s", why)
}

// Eventually asks until ok says yes. It ends the test after a time that only a hang exceeds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		asked := time.Now()
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
		time.Sleep(max(pause, min(2*time.Since(asked), 10*longestPause))) // who asks all the time keeps this machine from what is waited for
	}
}

// Dir returns a folder with a short name, because the name of a socket must fit into 107 bytes.
func Dir(t testing.TB) string {
	t.Helper()
	return dirIn(t, "")
}

// dirIn is Dir in another place than the folder for temporary files.
func dirIn(t testing.TB, place string) string {
	t.Helper()
	dir, err := os.MkdirTemp(place, "lr") //nolint:usetesting // its name is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Process is one running server.
type Process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
	kill sync.Once
}

// Start starts a program and kills it when the test ends. Its output goes to a file of dir, which Log shows.
func Start(t testing.TB, dir, name string, args ...string) *Process {
	t.Helper()
	p := launchAs(t, nil, dir, name, args...)
	t.Cleanup(p.Kill)
	return p
}

// launchAs is Start as another user, nil: as the test's own, for a process that outlives the test: one that a case restarts belongs
// to the test around it.
func launchAs(t testing.TB, as *syscall.Credential, dir, name string, args ...string) *Process {
	t.Helper()
	log, err := os.CreateTemp(dir, filepath.Base(name)+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: exec.Command(name, args...), log: log.Name(), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.Env = environment()
	p.cmd.SysProcAttr = deathSignal()
	if as != nil {
		p.cmd.SysProcAttr.Credential = as
	}
	started := make(chan error)
	go func() {
		defer close(p.done)
		defer func() { _ = log.Close() }()
		// The kernel's signal follows the thread that started the process (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return p
}

// environment returns what servers and their tools are started with. Whom the developer talks to otherwise, and
// through which proxy, is not part of the tests.
func environment() []string {
	env := []string{"NO_PROXY=*"}
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); {
		case strings.HasPrefix(name, "ETCD"), strings.HasPrefix(name, "CONSUL_"), strings.HasPrefix(name, "PG"), strings.EqualFold(name, "NO_PROXY"):
		default:
			env = append(env, v)
		}
	}
	return env
}

// Kill ends the process without a chance to say goodbye, and returns when it is gone. It may not have been started.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	p.kill.Do(func() { _ = p.cmd.Process.Kill() })
	<-p.done
}

// succeed waits until the process has ended, and well.
func (p *Process) succeed(t testing.TB, what string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
	}
	if !p.Ended() || !p.cmd.ProcessState.Success() {
		t.Fatalf("%s: %s", what, p.Log())
	}
}

// Stop freezes the process; Cont lets it go on.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
}

// Cont is the opposite of Stop.
func (p *Process) Cont(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
}

// Stall returns what freezes servers and returns what lets them go on.
func Stall[S interface {
	Stop(t testing.TB)
	Cont(t testing.TB)
}](servers ...S) func(t testing.TB) (resume func()) {
	return func(t testing.TB) func() {
		t.Helper()
		for _, s := range servers {
			s.Stop(t)
		}
		return func() {
			for _, s := range servers {
				s.Cont(t)
			}
		}
	}
}

func (p *Process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Signal sends a signal, or fails because the process is gone. After SIGSTOP it returns when the process does nothing any more.
func (p *Process) Signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if err == nil && s == syscall.SIGSTOP {
		awaitFrozen(p.PID())
	}
	return err
}

// Freeze stops a process, and returns when it does nothing any more.
func Freeze(pid int) error {
	err := syscall.Kill(pid, syscall.SIGSTOP)
	if err == nil {
		awaitFrozen(pid)
	}
	return err
}

func awaitFrozen(pid int) {
	for end := time.Now().Add(patience); Runs(pid) && !frozen(pid) && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // between two questions
	}
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended says whether the process is gone, or was never started.
func (p *Process) Ended() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tellAll shows what every member of a set wrote if the test fails: the one that did not answer is seldom the one
// to blame.
func tellAll(t testing.TB, n int, member func(i int) (string, *Process)) {
	t.Helper()
	t.Cleanup(func() {
		for i := range n {
			if name, p := member(i); t.Failed() && p != nil {
				t.Logf("%s:\n%s", name, p.Log())
			}
		}
	})
}

// Log returns the end of what the process wrote.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// ready waits until ask succeeds, and fails with the server's output if it ends before.
func (p *Process) ready(t testing.TB, what string, ask func() error) {
	t.Helper()
	var last error
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if last = ask(); last == nil {
			return
		}
		if p.Ended() || time.Now().After(end) {
			t.Fatalf("%s is not ready: %v\n%s", what, last, p.Log())
		}
	}
}

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
