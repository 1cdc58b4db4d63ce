package examples

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// setting returns the value of a key of a unit.
func setting(t *testing.T, unit, key string) string {
	t.Helper()
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return value
		}
	}
	t.Fatalf("the unit does not set %s", key)
	return ""
}

func TestSystemdUnitIsValid(t *testing.T) {
	t.Parallel()
	verifyUnit(t, feedUnit(t))
}

// feedUnit is the packages' unit of one service as it is for the feed, in its own file.
func feedUnit(t *testing.T) string {
	t.Helper()
	command := setting(t, text(t, "systemd/feed.env"), "COMMAND")
	return strings.NewReplacer("%i", "feed", " $OPTIONS", "", "$COMMAND", command).Replace(packagedUnit(t, "leaderrun@.service"))
}

// packagedUnit is a unit of the packages, with the backend in a file that only root can read.
func packagedUnit(t *testing.T, name string) string {
	t.Helper()
	return strings.NewReplacer("\n#LoadCredential", "\nLoadCredential", "\n#Environment", "\nEnvironment").Replace(text(t, "../packaging/"+name))
}

// verifyUnit has systemd read a unit as it is on a host that has all that it names.
func verifyUnit(t *testing.T, unit string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		servers.Lack(t, "systemd", "systemd-analyze is not installed")
	}
	w := newWorld(t)
	w.tool("feed", "true")
	w.write("example.service", w.relocate(unit))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", w.path("example.service")).CombinedOutput()
	if err != nil || strings.Contains(string(out), "example.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// manager is what systemd is to one service of Type=notify.
type manager struct {
	*host
	told transcript
}

// service starts the unit's command as systemd would.
func (w *world) service(name, unit string) *manager {
	w.t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: w.path(name + ".socket"), Net: "unixgram"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = socket.Close() })
	m := &manager{}
	go func() {
		message := make([]byte, 4096)
		for {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			fmt.Fprintf(&m.told, "%s\n", message[:n])
		}
	}()
	credential, _, _ := strings.Cut(setting(w.t, unit, "LoadCredential"), ":")
	if w.read(credential) == "" { // another service may be reading it
		w.write(credential, "file://"+w.dir+"/store\n")
	}
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "NOTIFY_SOCKET=" + w.path(name+".socket"), "NAME=" + name,
		strings.ReplaceAll(setting(w.t, unit, "Environment"), "%d", w.dir),
	}
	m.host = w.start(env, "", strings.Fields(w.relocate(setting(w.t, unit, "ExecStart")))...)
	return m
}

// hears waits until systemd was told something.
func (m *manager) hears(text string) {
	m.t.Helper()
	servers.Eventually(m.t, "systemd hears "+text, func() bool { return strings.Contains(m.told.String(), text) })
}

func TestSystemdStandby(t *testing.T) {
	t.Parallel()
	unit := feedUnit(t)
	for key, want := range map[string]string{"Type": "notify", "KillMode": "mixed", "Delegate": "yes", "Restart": "always", "RuntimeDirectory": "leaderrun-feed"} {
		if got := setting(t, unit, key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	if !strings.Contains(setting(t, unit, "ExecStart"), " --wait forever ") {
		t.Error("the service does not stand by")
	}
	w := newWorld(t)
	w.tool("feed", "exec 2>/dev/null", `trap 'echo "reload $NAME" >>$DIR/log' HUP`, `trap 'echo "stop $NAME" >>$DIR/log; exit 0' TERM`,
		`echo "start $NAME" >>$DIR/log`, "while :; do sleep 0.01; done")

	one := w.service("one", unit)
	w.until("log", "start one")
	one.hears("STATUS=feed: leading with token ")
	two := w.service("two", unit)
	two.hears("STATUS=feed: standing by behind ")
	for _, m := range []*manager{one, two} {
		m.hears("READY=1\n")
	}

	// systemctl reload
	if !strings.HasSuffix(setting(t, unit, "ExecReload"), " -HUP $MAINPID") {
		t.Error("a reload is not a HUP")
	}
	for _, m := range []*manager{one, two} {
		if err := m.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	w.until("log", "reload one")

	// systemctl stop, with KillMode=mixed: the standby takes over.
	if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.until("log", "start two")
	two.hears("STATUS=feed: leading with token ")
	one.expect(0, "") // the feed's own
	one.hears("STOPPING=1\n")
	log := strings.Replace(w.read("log"), "reload two\n", "", 1) // a standby has nothing to reload; one that stood still gets it late
	if got := log; got != "start one\nreload one\nstop one\nstart two\n" {
		t.Errorf("the log has %q", got)
	}
	_ = two.cmd.Process.Signal(syscall.SIGTERM)
	two.expect(0, "")
}
