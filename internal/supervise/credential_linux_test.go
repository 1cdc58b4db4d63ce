package supervise

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/test/servers"
)

// Numbers that no account of a host has.
const (
	strangerUID   = 54321
	strangerGID   = 54322
	strangerGroup = 54323
)

func asStranger() *Credential {
	return &Credential{UID: strangerUID, GID: strangerGID, Groups: []uint32{strangerGID, strangerGroup}}
}

// open lets a stranger write in the folder of a run.
func (r *run) open() {
	r.t.Helper()
	for dir := r.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		must(r.t, err)
		must(r.t, os.Chmod(dir, info.Mode().Perm()|0o011))
	}
	must(r.t, os.Chmod(r.dir, 0o777))
}

func rootAlone(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can run a command as another user")
	}
}

// TestCommandRunsAsAnother: hazard: a command of another user's keeps something of root: a number, a group, a capability, or the
// way back to one.
func TestCommandRunsAsAnother(t *testing.T) {
	rootAlone(t)
	before, err := syscall.Getgroups()
	must(t, err)
	must(t, syscall.Setgroups([]int{0, 4, 27})) // what a daemon of root's may have
	t.Cleanup(func() { must(t, syscall.Setgroups(before)) })
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		r.open()
		c := r.shell(`grep -E '^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)):' /proc/self/status >status
setpriv --reuid 0 true 2>/dev/null && echo back >back
setpriv --clear-groups true 2>/dev/null && echo back >back
cat /proc/$PPID/environ >guardian 2>/dev/null
true`)
		c.As = asStranger()
		r.start(c, far())
		r.wait(lifeline.Dead)
		status, err := os.ReadFile(filepath.Join(r.dir, "status"))
		must(t, err)
		want := "Uid: 54321 54321 54321 54321\nGid: 54322 54322 54322 54322\nGroups: 54322 54323\n" +
			"CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapAmb: 0000000000000000"
		var got []string
		for line := range strings.Lines(string(status)) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("got\n%s\nwant\n%s", text, want)
		}
		if _, err := os.Stat(filepath.Join(r.dir, "back")); err == nil {
			t.Error("it got something back")
		}
		if text, _ := os.ReadFile(filepath.Join(r.dir, "guardian")); len(text) > 0 {
			t.Error("it reads the guardian's environment")
		}
	})
}

// The folder is entered as the user: what that may not enter, the command does not begin in.
func TestFolderIsEnteredAsTheUser(t *testing.T) {
	rootAlone(t)
	r := prepare(t, Options{})
	c := r.shell("true")
	c.Dir, c.As = t.TempDir(), asStranger()
	must(t, os.Chmod(c.Dir, 0o700))
	if err := r.Start(c, far()); err == nil {
		t.Error("it was started")
	}
}

// What another user's command leaves behind is found and killed as any other.
func TestTreeOfAnotherUserIsSwept(t *testing.T) {
	rootAlone(t)
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		r.open()
		c := r.shell(`setsid sh -c 'trap "" TERM HUP; echo $$ >left.new; mv left.new left; exec sleep 1000' & while ! test -s left; do sleep 0.01; done`)
		c.As = asStranger()
		r.start(c, far())
		r.wait(lifeline.Dead)
		text, err := os.ReadFile(filepath.Join(r.dir, "left"))
		must(t, err)
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); err == nil {
			t.Error("it lives")
		}
	})
}

// TestCommandHasKeyringOfItsOwn: hazard: a command of another user's possesses root's session keyring, or that of another run, and
// reads or plants keys in it. The kernel lists in /proc/keys what the reader possesses (proc_keys(5)).
func TestCommandHasKeyringOfItsOwn(t *testing.T) {
	rootAlone(t)
	if _, err := os.Stat("/proc/keys"); err != nil {
		t.Skip("this kernel lists no keys")
	}
	const secret = "leaderrun-test-secret"
	list := func(as *Credential) string {
		r := prepare(t, Options{})
		r.open()
		c := r.shell(`cat /proc/keys >keys.new; echo >>keys.new; mv keys.new keys`)
		c.As = as
		r.start(c, far())
		r.wait(lifeline.Dead)
		return r.file("keys")
	}
	session := func(keys string) string {
		for line := range strings.Lines(keys) {
			if strings.Contains(line, " keyring ") && strings.Contains(line, " _ses:") {
				id, _, _ := strings.Cut(line, " ")
				return id
			}
		}
		return ""
	}
	var without bool
	var own, first, second string
	offMainThread(func() { // which is the one that forks the guardians
		runtime.LockOSThread() // and is not used again
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		if without = err == unix.ENOSYS || err == unix.EPERM; without {
			return
		}
		must(t, err)
		_, err = unix.AddKey("user", secret, []byte("x"), unix.KEY_SPEC_SESSION_KEYRING)
		must(t, err)
		own, first, second = list(nil), list(asStranger()), list(asStranger())
	})
	if without {
		t.Skip("keyctl(2) is missing or forbidden here")
	}
	if t.Failed() {
		return
	}
	if !strings.Contains(own, secret) {
		t.Errorf("a command of the same user has lost its session keyring:\n%s", own)
	}
	if strings.Contains(first+second, secret) {
		t.Error("another user's command finds the key")
	}
	if a, b := session(first), session(second); a == "" || a == b {
		t.Errorf("session keyrings %q and %q: want two", a, b)
	}
}
