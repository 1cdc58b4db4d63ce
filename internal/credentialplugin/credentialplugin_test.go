package credentialplugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/credentialplugin"
)

// enough is a time that only a hang exceeds.
const enough = time.Minute

const printed = `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"sesame"%s}}`

// script returns a plugin that is a shell script.
func script(t *testing.T, text string) credentialplugin.Plugin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return credentialplugin.Plugin{APIVersion: credentialplugin.V1, Command: "/bin/sh", Args: []string{path}}
}

// prints returns a plugin that counts its starts in a file and prints a token.
func prints(t *testing.T, more string) (p credentialplugin.Plugin, starts func() int) {
	t.Helper()
	count := filepath.Join(t.TempDir(), "count")
	p = script(t, "echo >> "+count+"\ncat <<'END'\n"+fmt.Sprintf(printed, more)+"\nEND\n")
	return p, func() int { text, _ := os.ReadFile(count); return len(text) }
}

func expires(in time.Duration) string {
	return `,"expirationTimestamp":"` + time.Now().Add(in).UTC().Format(time.RFC3339) + `"`
}

// TestKept: a credential is asked for once, until it expires or is refused.
func TestKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more string
		want int // starts for two questions
	}{
		"without an end": {"", 1},
		"for an hour":    {expires(time.Hour), 1},
		"over":           {expires(-time.Hour), 2},
		"nearly over":    {expires(3 * time.Second), 2},
	} {
		p, starts := prints(t, c.more)
		s := credentialplugin.New(p)
		for range 2 {
			if got, err := s.Get(t.Context()); err != nil || got.Token != "sesame" {
				t.Fatalf("%s: %v, %v", name, got, err)
			}
		}
		if n := starts(); n != c.want {
			t.Errorf("%s: %d starts, want %d", name, n, c.want)
		}
		s.Forget("another", nil)
		s.Forget("sesame", nil)
		if _, err := s.Get(t.Context()); err != nil || starts() != c.want+1 {
			t.Errorf("%s: %d starts after a refusal, %v", name, starts(), err)
		}
	}
}

// TestOneAtATime: who asks while a plugin runs waits for it, and starts no other.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	p, starts := prints(t, "")
	s := credentialplugin.New(p)
	done := make(chan error)
	for range 8 {
		go func() { _, err := s.Get(t.Context()); done <- err }()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := starts(); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// TestTold: a plugin is told which version is spoken, that there is no terminal, and of its cluster.
func TestTold(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "told")
	p := script(t, "printf %s \"$KUBERNETES_EXEC_INFO\" > "+out+"; echo \"$MINE\" >> "+out+"; cat <<'END'\n"+fmt.Sprintf(printed, "")+"\nEND\n")
	p.Cluster, p.Env = json.RawMessage(`{"server":"https://h"}`), []string{"MINE=yes"}
	if _, err := credentialplugin.New(p).Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	const want = `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"cluster":{"server":"https://h"},"interactive":false}}yes`
	if err != nil || strings.TrimSpace(string(text)) != want {
		t.Errorf("told %s, %v", text, err)
	}
}

// TestFailures: each says what is wrong, and none what was printed.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, shows string }{
		"it fails":           {"echo sesame; echo ignored >&2; echo 'no session' >&2; exit 3", "exit status 3: no session"},
		"it prints nothing":  {"", "no ExecCredential"},
		"it prints a secret": {"echo sesame", "no ExecCredential"},
		"another version":    {`echo '{"apiVersion":"v9","kind":"ExecCredential","status":{"token":"sesame"}}'`, "another version"},
		"neither":            {`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}'`, "neither a token nor a certificate"},
		"a bad key": {
			`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientCertificateData":"sesame","clientKeyData":"sesame"}}'`,
			"do not fit",
		},
		"without an end": {"yes", "no ExecCredential"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), enough)
		if name == "without an end" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			c.shows = context.DeadlineExceeded.Error()
		}
		_, err := credentialplugin.New(script(t, c.script)).Get(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.shows) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, want %q", name, err, c.shows)
		}
	}
	p := credentialplugin.Plugin{APIVersion: credentialplugin.V1, Command: "/nowhere/plugin", InstallHint: "install it"}
	if _, err := credentialplugin.New(p).Get(t.Context()); !errors.Is(err, credentialplugin.ErrMissing) || !strings.Contains(err.Error(), "install it") {
		t.Errorf("missing: %v", err)
	}
}

// TestKilledWithItsChildren: a plugin that hangs is killed when the request's time is over, and with it what it has
// started, which holds its output.
func TestKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	p := script(t, "sleep 1000 & echo $! > "+pid+".new; mv "+pid+".new "+pid+"; wait")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := credentialplugin.New(p).Get(ctx); ended <- err }()
	var child int
	for end := time.Now().Add(enough); child == 0; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(pid); err == nil {
			_, _ = fmt.Sscan(string(text), &child)
		}
		if time.Now().After(end) {
			t.Fatal("the plugin does not start")
		}
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(enough):
		t.Fatal("the plugin is waited for")
	}
	for end := time.Now().Add(enough); isRunning(child); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("what the plugin has started goes on as %d", child)
		}
	}
}

// isRunning says whether a process is neither gone nor a zombie that nobody has waited for.
func isRunning(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestReapedBySomebodyElse: who runs a job waits for every child of the process, and may be told of the plugin's end in
// our place. What the plugin has printed counts.
func TestReapedBySomebodyElse(t *testing.T) { //nolint:paralleltest // it reaps the children of all tests
	p, _ := prints(t, "")
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		reaped := 0
		defer func() { stopped <- reaped }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == nil && pid > 0 {
				reaped++
			}
		}
	}()
	for range 20 {
		if got, err := credentialplugin.New(p).Get(t.Context()); err != nil || got.Token != "sesame" {
			t.Errorf("%v, %v", got, err)
		}
	}
	close(stop)
	if <-stopped == 0 {
		t.Error("nothing was reaped: the test has tested nothing")
	}
}
