package credentialplugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/credentialplugin"
	"github.com/leaderrun/leaderrun/test/waits"
)

// enough is a time that only a hang exceeds.
var enough = waits.Patience

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
		"without an end":  {"", 1},
		"for an hour":     {expires(time.Hour), 1},
		"over":            {expires(-time.Hour), 2},
		"nearly over":     {expires(3 * time.Second), 2},
		"for two minutes": {expires(2 * time.Minute), 1},
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
		s := credentialplugin.New(script(t, c.script))
		_, err := s.Get(ctx)
		cancel()
		_ = s.Close()
		if err == nil || !strings.Contains(err.Error(), c.shows) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, want %q", name, err, c.shows)
		}
	}
	p := credentialplugin.Plugin{APIVersion: credentialplugin.V1, Command: "/nowhere/plugin", InstallHint: "install it"}
	if _, err := credentialplugin.New(p).Get(t.Context()); !errors.Is(err, credentialplugin.ErrMissing) || !strings.Contains(err.Error(), "install it") {
		t.Errorf("missing: %v", err)
	}
}

// TestNotStarted: a program that is not there is told from a system that cannot start one now, which passes.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", ".:"+os.Getenv("PATH"))
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{"here": {"#!/bin/sh\n", 0o700}, "data": {"#!/bin/sh\n", 0o600}, "text": {"no program", 0o700}} {
		if err := os.WriteFile(name, []byte(f.text), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, command := range map[string]string{
		"no such file":          "/nowhere/plugin",
		"no such name":          "leaderrun-has-no-such-plugin",
		"a name in this folder": "here",
		"not executable":        filepath.Join(dir, "data"),
		"no program":            filepath.Join(dir, "text"),
	} {
		p := credentialplugin.Plugin{APIVersion: credentialplugin.V1, Command: command}
		if _, err := credentialplugin.New(p).Get(t.Context()); !errors.Is(err, credentialplugin.ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}

	p, _ := prints(t, "")
	s := credentialplugin.New(p)
	if _, err := s.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Forget("sesame", nil)
	if err := withoutFiles(t, func() error { _, err := s.Get(t.Context()); return err }); !errors.Is(err, syscall.EMFILE) || errors.Is(err, credentialplugin.ErrMissing) {
		t.Errorf("too many open files: %v", err)
	}
	if got, err := s.Get(t.Context()); err != nil || got.Token != "sesame" {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// withoutFiles calls a function while this process can open no file.
func withoutFiles(t *testing.T, f func() error) error {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	return f()
}

// TestKilledWithItsChildren: a plugin that hangs holds up no request for longer than that may take, and when the source is
// closed it is killed, and with it what it has started, which holds its output.
func TestKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	p := script(t, "sleep 1000 & echo $! > "+pid+".new; mv "+pid+".new "+pid+"; wait")
	s := credentialplugin.New(p)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := s.Get(ctx); ended <- err }()
	var child int
	eventually(t, "the plugin starts", func() bool {
		text, _ := os.ReadFile(pid)
		_, _ = fmt.Sscan(string(text), &child)
		return child != 0
	})
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(enough):
		t.Fatal("the plugin is waited for")
	}
	if !isRunning(child) {
		t.Error("the plugin has ended with the request")
	}
	closing := time.Now()
	if err := s.Close(); err != nil || time.Since(closing) > 25*time.Second { // no plugin may take longer than 30 s
		t.Errorf("closed after %v: %v", time.Since(closing), err)
	}
	eventually(t, "what the plugin has started ends", func() bool { return !isRunning(child) })
	if _, err := s.Get(t.Context()); err == nil {
		t.Error("a source that is closed starts a plugin")
	}
}

// gated returns a plugin that waits for a file before it goes on, and what makes that file.
func gated(t *testing.T, then string) (p credentialplugin.Plugin, open func()) {
	t.Helper()
	gate := filepath.Join(t.TempDir(), "gate")
	p = script(t, "while ! test -e "+gate+"; do sleep 0.01; done\n"+then)
	return p, func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// TestSlowerThanARequest: a request may take a sixth of a lease, and a plugin takes longer. What it brings is there for a
// later one; so is why it failed.
func TestSlowerThanARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ then, token, fails string }{
		"a token":   {"cat <<'END'\n" + fmt.Sprintf(printed, "") + "\nEND\n", "sesame", ""},
		"a failure": {"echo 'no session' >&2; exit 3", "", "no session"},
	} {
		starts := filepath.Join(t.TempDir(), "starts")
		p, open := gated(t, "echo $$ >> "+starts+"\n"+c.then)
		s := credentialplugin.New(p)
		t.Cleanup(func() { _ = s.Close() })
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if _, err := s.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		open()
		pid := 0
		eventually(t, name+": the plugin ends", func() bool {
			text, _ := os.ReadFile(starts)
			_, _ = fmt.Sscan(string(text), &pid)
			return pid != 0 && syscall.Kill(pid, 0) != nil
		})
		got, err := s.Get(t.Context())
		if text, _ := os.ReadFile(starts); strings.Count(string(text), "\n") != 1 {
			t.Errorf("%s: started again: %q", name, text)
		}
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %v", name, err)
		case c.token != "" && (err != nil || got.Token != c.token):
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestReplacedAheadOfTime: a credential that will soon expire is shown while the plugin brings another, and nobody waits.
func TestReplacedAheadOfTime(t *testing.T) {
	t.Parallel()
	first := filepath.Join(t.TempDir(), "first")
	p, open := gated(t, "cat <<'END'\n"+strings.Replace(fmt.Sprintf(printed, expires(time.Hour)), "sesame", "another", 1)+"\nEND\n")
	p.Args = []string{script(t, "if mkdir "+first+" 2>/dev/null; then cat <<'END'\n"+fmt.Sprintf(printed, expires(39*time.Second))+
		"\nEND\nexit; fi\n. "+p.Args[0]).Args[0]}
	s := credentialplugin.New(p)
	t.Cleanup(func() { _ = s.Close() })
	for range 2 {
		if got, err := s.Get(t.Context()); err != nil || got.Token != "sesame" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	open()
	for end := time.Now().Add(25 * time.Second); ; time.Sleep(time.Millisecond) { // then it would have to be replaced
		got, err := s.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Token == "another" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the token is not replaced")
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
	var reaped atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == nil && pid > 0 {
				reaped.Add(1)
			}
		}
	}()
	for end, n := time.Now().Add(enough), 0; n < 20 || reaped.Load() == 0; n++ { // it is not always the first to be told
		if got, err := credentialplugin.New(p).Get(t.Context()); err != nil || got.Token != "sesame" {
			t.Errorf("%v, %v", got, err)
		}
		if time.Now().After(end) {
			t.Fatal("nothing was reaped: the test has tested nothing")
		}
	}
	cancel()
	<-stopped
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(enough); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", enough, what)
		}
	}
}
