package launch

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/waits"
)

// The hazard: a backend that does not answer, a command that waits for ever, or takes silence for a yes.
func TestNoAnswerIsNoLease(t *testing.T) {
	_, path := openSocket(t, 600*time.Millisecond)
	if limit := AskLimit(path); limit != 300*time.Millisecond {
		t.Errorf("%s is waited for %v", path, limit)
	}
	answer, err := AskRun(t.Context(), path, waits.Patience)
	if err != nil || answer.Leading || answer.Reason == "" {
		t.Errorf("nobody answered: %+v, %v", answer, err)
	}

	// A wrapper that is stopped: its socket takes the connection, and nothing comes.
	stopped := filepath.Join(shortDir(t), "s")
	listener, err := net.Listen("unix", stopped)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if answer, err := AskRun(t.Context(), stopped, 50*time.Millisecond); err == nil || answer.Leading {
		t.Errorf("stopped: %+v, %v", answer, err)
	}
	if _, err := AskRun(t.Context(), stopped+"-gone", waits.Patience); err == nil {
		t.Error("there is no socket")
	}
}

func TestAnswersThatMakeNoSenseAreNoLease(t *testing.T) {
	for _, reply := range []string{
		"", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n{\"leading\":true}",
		"HTTP/1.1 409 Conflict\r\n\r\n{\"leading\":true,\"left_ms\":5}", "HTTP/1.1 500 No\r\n\r\n{\"leading\":true,\"left_ms\":5}",
	} {
		path := filepath.Join(shortDir(t), "s")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				_, _ = io.CopyN(io.Discard, conn, 10)
				_, _ = io.WriteString(conn, reply)
				_ = conn.Close()
			}
		}()
		if answer, err := AskRun(t.Context(), path, waits.Patience); err == nil && answer.Leading {
			t.Errorf("%q is taken for %+v", reply, answer)
		}
		_ = listener.Close()
	}
}
