package servers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// recorder is a testing.TB that notes whether a test would be skipped or failed.
type recorder struct {
	testing.TB
	said string
}

type stopped struct{}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.said = "skip: " + fmt.Sprintf(format, args...)
	panic(stopped{})
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = "fatal: " + fmt.Sprintf(format, args...)
	panic(stopped{})
}

func required(t *testing.T, server string) string {
	t.Helper()
	return said(t, func(r *recorder) { Require(r, server) })
}

func said(t *testing.T, do func(*recorder)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		do(r)
	}()
	return r.said
}

func TestRequire(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("LEADERRUN_TEST_REQUIRE", "")
	if got := required(t, "redis"); !strings.HasPrefix(got, "skip: redis-server") {
		t.Errorf("without the program: %q", got)
	}
	t.Setenv("LEADERRUN_TEST_REQUIRE", "etcd,redis")
	if got := required(t, "redis"); !strings.HasPrefix(got, "fatal: redis-server") {
		t.Errorf("without a program that must be there: %q", got)
	}
	if got := required(t, "sentinel"); !strings.HasPrefix(got, "skip:") {
		t.Errorf("without a program that another server needs: %q", got)
	}
}

// TestRequireRoot: what needs root cannot be skipped in silence either.
func TestRequireRoot(t *testing.T) {
	t.Cleanup(func() { euid = os.Geteuid })
	for _, c := range []struct {
		user           int
		required, want string
	}{
		{0, "faketime", ""},
		{1, "", "skip: clocks need root"},
		{1, "netns,faketime", "fatal: clocks need root, and LEADERRUN_TEST_REQUIRE names faketime"},
	} {
		euid = func() int { return c.user }
		t.Setenv("LEADERRUN_TEST_REQUIRE", c.required)
		if got := said(t, func(r *recorder) { RequireRoot(r, "faketime", "clocks") }); got != c.want {
			t.Errorf("user %d, LEADERRUN_TEST_REQUIRE=%s: %q, want %q", c.user, c.required, got, c.want)
		}
	}
}

// TestRequireAccount: a server that has no account to run as cannot be skipped in silence either.
func TestRequireAccount(t *testing.T) {
	if os.Geteuid() != 0 {
		Lack(t, "root", "only root needs another account")
	}
	for required, want := range map[string]string{"": "skip:", "redis,postgres": "fatal:"} {
		t.Setenv("LEADERRUN_TEST_REQUIRE", required)
		got := said(t, func(r *recorder) { unprivileged(r, "postgres", "nobody has this name") })
		if !strings.HasPrefix(got, want) {
			t.Errorf("LEADERRUN_TEST_REQUIRE=%s: %q", required, got)
		}
	}
}

func TestNewest(t *testing.T) {
	paths := []string{debianPostgres + "/15/bin/postgres", debianPostgres + "/9.6/bin/postgres", debianPostgres + "/x/bin/postgres"}
	if got := newest(paths); got != paths[0] {
		t.Errorf("got %s", got)
	}
}

func TestBinary(t *testing.T) {
	cache, path := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	defer func(old string) { built = old }(built)
	built = cache
	if got, err := Binary("etcd"); err == nil {
		t.Errorf("nowhere: %s", got)
	}
	for _, dir := range []string{path, cache} { // what was built comes before what is installed
		want := writeFile(t, dir, "etcd", "")
		if err := os.Chmod(want, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if got, err := Binary("etcd"); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// echo is a server that repeats what it is told.
func echo(t *testing.T) string {
	t.Helper()
	addr, _ := ByHand(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	return addr
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echo(t))
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	say := func(line string, wait time.Duration) (string, error) {
		_, _ = fmt.Fprintln(c, line)
		_ = c.SetReadDeadline(time.Now().Add(wait))
		return r.ReadString('\n')
	}
	for i := range 3 {
		if got, err := say("a", patience); got != "a\n" || p.Trips() != i+1 {
			t.Fatalf("%q, %v, %d trips", got, err, p.Trips())
		}
	}
	p.Delay(50 * time.Millisecond)
	sent := time.Now()
	if got, err := say("b", patience); got != "b\n" || time.Since(sent) < 50*time.Millisecond {
		t.Errorf("delayed: %q, %v after %v", got, err, time.Since(sent))
	}
	p.Delay(0)
	p.DropReplies(true)
	if got, err := say("c", 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a dropped reply: %q, %v", got, err)
	}
	Eventually(t, "the reply is dropped", func() bool { return p.Dropped() == 1 })
	p.DropAll(true)
	if got, err := say("d", 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a dropped request: %q, %v", got, err)
	}
	Eventually(t, "the request is dropped", func() bool { return p.swallowed.Load() == 1 })
	p.DropAll(false)
	if got, err := say("e", patience); got != "e\n" {
		t.Errorf("after all: %q, %v", got, err)
	}
	p.Cut()
	if got, err := say("f", patience); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a cut connection: %q, %v", got, err)
	}
}
