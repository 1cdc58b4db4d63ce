package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// TestUnsolicitedAnswer: hazard: what package net/http has to say of a server reaches stderr past --log-level and --log-format. The
// server is an agent of Consul that grants whatever is asked for, and says more after each answer.
func TestUnsolicitedAnswer(t *testing.T) {
	t.Parallel()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		text := "[]"
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v1/session/create"):
			text = `{"ID":"s"}`
		case strings.HasPrefix(path, "/v1/session/renew"):
			text = `[{"ID":"s"}]`
		case strings.HasPrefix(path, "/v1/txn"):
			text = `{"Results":[{"KV":{"Key":"leaderrun/job/record","ModifyIndex":8}},{"KV":{"Key":"leaderrun/job/lock","ModifyIndex":8,"Session":"s"}}]}`
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX-Consul-Index: 9\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", len(text), text)
	}))
	t.Cleanup(agent.Close)
	const line = "Unsolicited response received"
	for level, shown := range map[string]bool{"warn": false, "info": false, "debug": true} {
		cmd := exec.CommandContext(t.Context(), "leaderrun", "run", "--log-level", level, "--log-format", "json", "--ttl", "10s", "job", "true")
		cmd.Env = append(cmd.Environ(), "LEADERRUN_BACKEND=consul://"+strings.TrimPrefix(agent.URL, "http://"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		if strings.Contains(stderr.String(), line) != shown {
			t.Errorf("--log-level %s: %q", level, &stderr)
		}
		for said := range strings.Lines(stderr.String()) {
			if !strings.HasPrefix(said, "{") {
				t.Errorf("--log-level %s: not by our console: %q", level, said)
			}
		}
	}
}
