package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/test/servers"
)

func TestCommandGetsArgumentsAndEnvironmentUntouched(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		c := r.shell("")
		argv := []string{
			"another name", "-c", `printf '%s\0' "$0" "$@" >argv; cat /proc/$$/environ >env; pwd -P >cwd`,
			"zero", "", " a  b ", "--flag", "-", "--", "\xff\xfe", "new\nline",
		}
		c.Argv = argv
		c.Env = []string{r.mark, "A=1", "A=2", "EMPTY=", "no equals sign", "B=\xff", "PATH=" + os.Getenv("PATH")}
		r.start(c, far())
		r.wait(lifeline.Dead)
		r.equal("argv", strings.Join(argv[3:], "\x00")+"\x00")
		// The shell keeps what it was given in /proc/PID/environ.
		r.equal("env", strings.Join(c.Env, "\x00")+"\x00")
		dir, err := filepath.EvalSymlinks(r.dir)
		must(t, err)
		r.equal("cwd", dir+"\n")
	})
}

func (r *run) equal(name, want string) {
	r.t.Helper()
	got, err := os.ReadFile(filepath.Join(r.dir, name))
	must(r.t, err)
	if string(got) != want {
		r.t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

// The script that describes the shell that runs it; the listing's own descriptor is the last one.
const describe = `cat /proc/self/status | grep -E '^(SigBlk|SigIgn|SigCgt)' >signals
ulimit -n >limits; ulimit -Hn >>limits; umask >>limits
for f in /proc/self/fd/*; do echo "${f##*/} $(readlink $f)"; done >/dev/null
ls -l /proc/self/fd | sed -n 's/.* \([0-9]* -> .*\)/\1/p' | grep -v '/proc/.*/fd$' >descriptors`

func TestCommandGetsWhatABareSpawnGets(t *testing.T) {
	if testing.Short() {
		servers.SkipShort(t)
	}
	tiers(t, func(t *testing.T, o Options) {
		// Open in this process and not close-on-exec, like `exec 9>log` in the shell before.
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		must(t, err)
		defer log.Close()
		const number = 47
		must(t, syscall.Dup3(int(log.Fd()), number, 0))
		defer syscall.Close(number)
		args := []string{"-test.run=^TestHelperDescribe$", "-test.v"}
		for _, how := range []string{"bare", "guarded"} {
			dir := t.TempDir()
			cmd := exec.Command(self(t), args...)
			cmd.Env = append(os.Environ(), "LR_DESCRIBE="+how, "LR_DIR="+dir)
			if o.withoutCgroup {
				cmd.Env = append(cmd.Env, "LR_WITHOUT=1")
			}
			// A second process, because what it inherits must be there when it starts.
			for len(cmd.ExtraFiles) < 6 {
				cmd.ExtraFiles = append(cmd.ExtraFiles, nil)
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, log) // number 9
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Setenv("LR_"+how, dir)
		}
		for _, name := range []string{"signals", "limits", "descriptors"} {
			bare, err := os.ReadFile(filepath.Join(os.Getenv("LR_bare"), name))
			must(t, err)
			guarded, err := os.ReadFile(filepath.Join(os.Getenv("LR_guarded"), name))
			must(t, err)
			b, g := pipesUnnumbered(string(bare)), pipesUnnumbered(string(guarded))
			if b != g {
				t.Errorf("%s: guarded\n%s\nbare\n%s", name, g, b)
			}
			if name == "descriptors" && !strings.Contains(g, "9 -> "+log.Name()) {
				t.Errorf("descriptor 9 is lost: %s", g)
			}
		}
	})
}

// pipesUnnumbered makes `pipe:[123]` of two processes equal.
func pipesUnnumbered(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		if at := strings.Index(line, "pipe:["); at >= 0 {
			line = line[:at] + "pipe\n"
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// TestHelperDescribe runs in a process of its own, see TestCommandGetsWhatABareSpawnGets.
func TestHelperDescribe(t *testing.T) {
	dir := os.Getenv("LR_DIR")
	if dir == "" {
		return // this is for another test
	}
	if os.Getenv("LR_DESCRIBE") == "bare" {
		cmd := exec.Command("/bin/sh", "-c", describe)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, os.Stdin, os.Stdout, os.Stderr
		must(t, cmd.Run())
		return
	}
	CaptureSignals()
	r := prepare(t, Options{withoutCgroup: os.Getenv("LR_WITHOUT") != ""})
	c := r.shell(describe)
	c.Dir = dir
	r.start(c, far())
	r.wait(lifeline.Dead)
}

// Whoever has a descriptor can unlock it for all: what is to be held is not the command's.
func TestHeldDescriptorIsNotTheCommands(t *testing.T) {
	r := prepare(t, Options{})
	lock, err := os.Create(filepath.Join(r.dir, "lock"))
	must(t, err)
	defer lock.Close()
	tree, err := os.Create(filepath.Join(r.dir, "tree"))
	must(t, err)
	defer tree.Close()
	c := r.shell(`ls -l /proc/self/fd | grep -c 'lock$' >count; ls -l /proc/self/fd | grep -c 'tree$' >>count`)
	c.Hold, c.Inherit = []*os.File{lock}, []*os.File{tree}
	r.start(c, far())
	r.wait(lifeline.Dead)
	r.equal("count", "0\n1\n")
}

func TestExitStatus(t *testing.T) {
	tests := map[string]lifeline.Status{
		"exit 0":        {Known: true},
		"exit 3":        {Known: true, Code: 3},
		"exit 255":      {Known: true, Code: 255},
		"kill -TERM $$": {Known: true, Signal: syscall.SIGTERM},
		"kill -KILL $$": {Known: true, Signal: syscall.SIGKILL},
		"kill -USR1 $$": {Known: true, Signal: syscall.SIGUSR1},
	}
	for script, want := range tests {
		t.Run(script, func(t *testing.T) {
			r := prepare(t, Options{})
			r.start(r.shell(script), far())
			if got := r.wait(lifeline.Dead); got.Status != want {
				t.Errorf("got %+v, want %+v", got.Status, want)
			}
			if !r.saw(lifeline.Exited) || r.saw(lifeline.Leftovers) || r.seen[0].Status != want {
				t.Errorf("events %+v", r.seen)
			}
			if _, open := <-r.Events(); open {
				t.Error("an event after Dead")
			}
		})
	}
}

func TestExecFailureIsTold(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	tests := []struct {
		name, path string
		errno      syscall.Errno
		code       int
	}{
		{"absent", filepath.Join(dir, "absent"), syscall.ENOENT, 127},
		{"directory", dir, syscall.EACCES, 126},
		{"not executable", file("plain", "#!/bin/sh\n", 0o644), syscall.EACCES, 126},
		{"another machine's", file("foreign", "\x7fELF\x00\n", 0o755), syscall.ENOEXEC, 126},
		{"interpreter absent", file("lost", "#!/nonexistent\n", 0o755), syscall.ENOENT, 127},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tiers(t, func(t *testing.T, o Options) {
				r := prepare(t, o)
				c := r.shell("")
				c.Path = test.path
				err := r.Start(c, far())
				exec, ok := errors.AsType[*ExecError](err)
				if !ok || exec.Errno != test.errno || exec.ExitCode() != test.code {
					t.Fatalf("got %v, want %v", err, test.errno)
				}
				// The guardian is as good as new.
				r.start(r.shell("exit 5"), far())
				if got := r.wait(lifeline.Dead); got.Status.Code != 5 {
					t.Errorf("then got %+v", got)
				}
			})
		})
	}
}

func TestTooLateStartsNothing(t *testing.T) {
	r := prepare(t, Options{})
	if err := r.Start(r.shell("echo >ran"), in(-time.Second)); !errors.Is(err, ErrTooLate) {
		t.Errorf("got %v", err)
	}
	// The wrapper compares too; this asks the guardian alone.
	inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
		r := prepare(t, Options{})
		stop(t, r.Guard.pid)
		d := within(longer(150*time.Millisecond), 10*time.Second)
		result := make(chan error)
		go func() { result <- r.Start(r.shell("echo >ran"), d) }()
		eventually(t, "the deadline, and the second look", func() bool { return boottime.Now() >= d.Term.Add(4*secondLook) })
		_ = syscall.Kill(r.Guard.pid, syscall.SIGCONT)
		err := <-result
		if _, err := os.Stat(filepath.Join(r.dir, "ran")); err == nil {
			t.Error("the command ran")
		}
		if errors.Is(err, ErrGuardian) {
			return true
		}
		if !errors.Is(err, ErrTooLate) {
			t.Errorf("got %v", err)
		}
		return false
	})
}

func TestCloseWithoutStart(t *testing.T) {
	for range 3 {
		r := prepare(t, Options{})
		must(t, r.Close())
		must(t, r.Close())
		if _, open := <-r.Events(); open {
			t.Error("an event of nothing")
		}
		if err := r.Start(r.shell("exit 0"), far()); err == nil {
			t.Error("started after Close")
		}
	}
}

func TestGuardianLooksLikeItself(t *testing.T) {
	r := prepare(t, Options{})
	r.start(r.shell("echo $PPID >parent; sleep 100"), far())
	proc := "/proc/" + strconv.Itoa(r.pid("parent"))
	for name, want := range map[string]string{"comm": "lr-guard\n", "environ": ""} {
		got, err := os.ReadFile(filepath.Join(proc, name))
		must(t, err)
		if string(got) != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	got, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	must(t, err)
	if !strings.HasPrefix(string(got), "lr-guard\x00") {
		t.Errorf("cmdline %q", got)
	}
}

// The guardian must not pay for what the rest of the program links: its init comes before that.
func TestGuardianInitialisesEarly(t *testing.T) {
	cmd := exec.Command(self(t), "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	must(t, err)
	var order []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "init" {
			order = append(order, fields[1])
		}
	}
	const earliest = 30
	at := slices.Index(order, "github.com/leaderrun/leaderrun/internal/supervise/guardian")
	if at < 0 || at > earliest {
		t.Errorf("it is number %d in %v", at, order)
	}
	for _, late := range []string{"reflect", "golang.org/x/sys/unix", "testing"} {
		if slices.Contains(order[:max(at, 0)], late) {
			t.Errorf("%s comes before it", late)
		}
	}
}

func TestNoDescriptorIsLeaked(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(list)
	}
	once := func(name string, script string) {
		t.Run(name, func(t *testing.T) {
			r := prepare(t, Options{})
			r.start(r.shell(script), far())
			r.wait(lifeline.Dead)
			must(t, r.Close())
		})
	}
	once("first", "exit 0")
	before := count()
	for range 10 {
		once("again", "sleep 100 & exit 0")
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors, were %d", after, before)
	}
}
