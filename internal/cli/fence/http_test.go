package fence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/test/waits"
)

// fenceDaemon is `leaderrun fence http` as a process of its own.
type fenceDaemon struct {
	cmd  *exec.Cmd
	url  string
	said chan string // what comes on stderr after the address
}

// startFenceDaemon starts one with these arguments, and waits until it listens.
func startFenceDaemon(t *testing.T, state string, args ...string) *fenceDaemon {
	t.Helper()
	home := t.TempDir()
	// It is killed where the test fails, before the directories are removed.
	ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
	t.Cleanup(cancel)
	d := &fenceDaemon{cmd: exec.CommandContext(ctx, "leaderrun", args...), said: make(chan string, 1)}
	d.cmd.Env = append(os.Environ(), "LEADERRUN_LOG_LEVEL=info", "LEADERRUN_STATE="+state, "HOME="+home, "GORACE=atexit_sleep_ms=0")
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "leaderrun: listening on ")
	if err != nil || !ok {
		t.Fatalf("%v: %q", err, line)
	}
	d.url = "http://" + address
	go func() {
		rest, _ := io.ReadAll(lines)
		d.said <- string(rest)
	}()
	return d
}

// end sends signals and returns how the daemon ended, and what it said.
func (d *fenceDaemon) end(t *testing.T, signals ...syscall.Signal) (syscall.WaitStatus, string) {
	t.Helper()
	for _, sig := range signals {
		if err := d.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	said := <-d.said
	_ = d.cmd.Wait()
	status, _ := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status, said
}

func (d *fenceDaemon) raise(t *testing.T, token int64) error {
	t.Helper()
	_, err := httpfence.NewResource(&http.Client{Transport: new(http.Transport)}, d.url).Raise(t.Context(), fence.Run{Token: token})
	return err
}

// Hazard: the proxy is killed and started again, and has forgotten which runs were overtaken.
func TestFenceHTTPSurvivesAKill(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	state := filepath.Join(t.TempDir(), "new", "state")
	d := startFenceDaemon(t, state, "fence", "http", "--listen", "127.0.0.1:0", upstream.URL)
	if err := d.raise(t, 7); err != nil {
		t.Fatal(err)
	}
	d.end(t, syscall.SIGKILL)

	d = startFenceDaemon(t, state, "fence", "http", "--listen", "127.0.0.1:0", upstream.URL)
	stale, ok := errors.AsType[*fence.StaleError](d.raise(t, 6))
	if !ok || stale.Highest != 7 {
		t.Errorf("a stale run after a restart: %v", stale)
	}
	if err := d.raise(t, 7); err != nil {
		t.Errorf("the same run after a restart: %v", err)
	}
	// What asks for the server itself goes through the fence, too.
	itself, _ := http.NewRequestWithContext(t.Context(), http.MethodOptions, d.url, http.NoBody)
	itself.URL.Opaque = "*"
	itself.Header.Set(httpfence.Header, "6")
	response, err := http.DefaultClient.Do(itself)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusConflict {
		t.Errorf("OPTIONS *: %s", response.Status)
	}
	status, said := d.end(t, syscall.SIGTERM)
	if status.ExitStatus() != 0 {
		t.Errorf("ended with %v", status)
	}
	if !strings.Contains(said, "leaderrun: HEAD /: 127.0.0.1:") || strings.Count(said, "token 6 is stale: a run with token 7 has raised the fence\n") != 2 {
		t.Errorf("said %q", said)
	}
}

// Hazard: many clients, each with half a request, take the memory of the host. One that waits gets its turn, also where a WebSocket goes on.
func TestServeSome(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: waits.Patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	})}
	defer server.Close()
	go func() { _ = launch.ServeSome(server, listener, 1) }()
	ask := func(path string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		return conn
	}
	answered := func(conn net.Conn, within time.Duration) error {
		_ = conn.SetReadDeadline(time.Now().Add(within))
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	first := ask("/")
	if err := answered(first, waits.Patience); err != nil {
		t.Fatal(err)
	}
	second := ask("/hijack")
	if err := answered(second, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a second connection, beside one that stays: %v", err)
	}
	_ = first.Close()
	if err := answered(ask("/"), waits.Patience); err != nil {
		t.Errorf("after one has become something else: %v", err)
	}
}

// SIGTERM lets a request end; a second one does not.
func TestFenceHTTPDrains(t *testing.T) {
	t.Parallel()
	for _, hurry := range []bool{false, true} {
		came, release := make(chan struct{}), make(chan struct{})
		upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(came)
			<-release
		}))
		d := startFenceDaemon(t, t.TempDir(), "fence", "http", "--listen", "127.0.0.1:0", upstream.URL)
		answer := make(chan error, 1)
		go func() { answer <- d.raise(t, 5) }()
		<-came
		if hurry {
			status, said := d.end(t, syscall.SIGTERM, syscall.SIGINT)
			if !status.Signaled() || !strings.Contains(said, "requests were cut off") {
				t.Errorf("hurried: %v, said %q", status, said)
			}
			close(release)
			if err := <-answer; err == nil {
				t.Error("hurried: the request was answered")
			}
		} else {
			if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			for refused := false; !refused; { // it does not listen any more
				conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
				if refused = err != nil; !refused {
					conn.Close()
				}
			}
			close(release)
			if err := <-answer; err != nil {
				t.Errorf("the request under way: %v", err)
			}
			if status, said := d.end(t); status.ExitStatus() != 0 || said != "" {
				t.Errorf("%v, said %q", status, said)
			}
		}
		upstream.Close()
	}
}

// switchProtocols makes the connection of a request one in both directions.
func switchProtocols(t *testing.T, w http.ResponseWriter) net.Conn {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	return conn
}

// dialUpgrade opens a connection in both directions.
func dialUpgrade(t *testing.T, address string, token int64) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n%s: %d\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", httpfence.Header, token)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(response, err)
	}
	response.Body.Close()
	return conn
}

// Hazard: the proxy is restarted, and the service still works on what came through a WebSocket.
func TestFenceHTTPDrainsWebSockets(t *testing.T) {
	t.Parallel()
	came, ended, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn := switchProtocols(t, w)
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1))
		close(came)
		_, _ = io.Copy(io.Discard, conn)
		close(ended)
		<-release
	}))
	defer upstream.Close()
	d := startFenceDaemon(t, t.TempDir(), "fence", "http", "--listen", "127.0.0.1:0", upstream.URL)
	conn := dialUpgrade(t, strings.TrimPrefix(d.url, "http://"), 5)
	if _, err := conn.Write([]byte("delete all")); err != nil {
		t.Fatal(err)
	}
	<-came
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(waits.Patience):
		t.Fatal("the connection stays open")
	}
	select {
	case said := <-d.said:
		t.Errorf("the proxy has ended, and the service is still at work: %q", said)
		d.said <- said
	case <-time.After(100 * time.Millisecond): // to show a fault; it decides nothing where there is none
	}
	close(release)
	if status, said := d.end(t); status.ExitStatus() != 0 || said != "" {
		t.Errorf("%v, said %q", status, said)
	}
}

// Every example of the help works, on a port that is free.
func TestFenceHTTPExamples(t *testing.T) {
	t.Parallel()
	free := strings.NewReplacer("localhost:8080", "localhost:0", " :8080", " localhost:0")
	for _, e := range fenceHTTPCommand().Examples {
		words := strings.Fields(free.Replace(e.Line))
		d := startFenceDaemon(t, t.TempDir(), words[1:]...)
		if err := d.raise(t, 5); err != nil { // by the proxy; nobody needs to listen behind it
			t.Errorf("%s: %v", e.Line, err)
		}
		if status, said := d.end(t, syscall.SIGTERM); status.ExitStatus() != 0 {
			t.Errorf("%s: %v, said %q", e.Line, status, said)
		}
	}
}
