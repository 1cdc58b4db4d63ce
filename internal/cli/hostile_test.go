package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// badAgent is an agent of Consul that grants whatever is asked for, as long as it is told to.
type badAgent struct {
	*httptest.Server
	switches atomic.Bool // it answers 101 from now on
	trailing string      // follows each answer, and belongs to none
	renewals chan bool   // gets one for each
	asked    chan bool   // gets one for each that was answered by 101
}

func newBadAgent(t *testing.T) *badAgent {
	t.Helper()
	a := &badAgent{renewals: make(chan bool, 100), asked: make(chan bool, 100)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		text := "[]"
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v1/session/create"):
			text = `{"ID":"s"}`
		case strings.HasPrefix(path, "/v1/session/renew"):
			text = `[{"ID":"s"}]`
			a.renewals <- true
		case strings.HasPrefix(path, "/v1/txn"):
			text = `{"Results":[{"KV":{"Key":"leaderrun/job/record","ModifyIndex":8}},{"KV":{"Key":"leaderrun/job/lock","ModifyIndex":8,"Session":"s"}}]}`
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		context.AfterFunc(t.Context(), func() { _ = conn.Close() })
		if a.switches.Load() {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			a.asked <- true
			return
		}
		header := ""
		if a.trailing == "" {
			header = "Connection: close\r\n"
			defer func() { _ = conn.Close() }()
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX-Consul-Index: 9\r\n%sContent-Length: %d\r\n\r\n%s%s", header, len(text), text, a.trailing)
	}))
	t.Cleanup(a.Close)
	return a
}

// program starts leaderrun with the agent as its backend. The channel gets its end.
func (a *badAgent) program(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer, ended <-chan error) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "leaderrun", args...)
	cmd.Env = append(cmd.Environ(), "LEADERRUN_BACKEND=consul://"+strings.TrimPrefix(a.URL, "http://"))
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	return cmd, stderr, end
}

func must[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("in vain: " + what)
	}
	return v
}

// TestSwitchedProtocols: hazard: a server that answers 101 in the middle of a claim, or of a run, keeps leaderrun from ending for ever,
// SIGTERM or not.
func TestSwitchedProtocols(t *testing.T) {
	t.Parallel()
	t.Run("claim", func(t *testing.T) {
		t.Parallel()
		a := newBadAgent(t)
		a.switches.Store(true)
		cmd, _, ended := a.program(t, "run", "--ttl", "10s", "--backend-wait", "1h", "job", "true")
		must(t, "the claim is answered by 101", a.asked)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		must(t, "SIGTERM ends a claim", ended)
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		a := newBadAgent(t)
		cmd, stderr, ended := a.program(t, "run", "--log-level", "debug", "--ttl", "10s", "--kill-after", "1s", "job", "sleep", "600")
		select {
		case <-a.renewals:
		case err := <-ended:
			t.Fatalf("%v: %s", err, stderr)
		}
		a.switches.Store(true)
		must(t, "a renewal is answered by 101", a.asked)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		must(t, "SIGTERM ends a run", ended)
	})
}

// TestUnsolicitedAnswer: hazard: what package net/http has to say of a server reaches stderr past --log-level and --log-format.
func TestUnsolicitedAnswer(t *testing.T) {
	t.Parallel()
	const line = "Unsolicited response received"
	for level, shown := range map[string]bool{"warn": false, "info": false, "debug": true} {
		a := newBadAgent(t)
		a.trailing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		_, stderr, ended := a.program(t, "run", "--log-level", level, "--log-format", "json", "--ttl", "10s", "job", "true")
		if err := must(t, "the run ends", ended); err != nil {
			if _, ok := errors.AsType[*exec.ExitError](err); !ok {
				t.Fatal(err)
			}
		}
		if strings.Contains(stderr.String(), line) != shown {
			t.Errorf("--log-level %s: %q", level, stderr)
		}
		for said := range strings.Lines(stderr.String()) {
			if !strings.HasPrefix(said, "{") {
				t.Errorf("--log-level %s: not by our console: %q", level, said)
			}
		}
	}
}
