package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
)

// Before the first ping on it is due: an etcd hangs up on who pings without a request.
func TestAQuietConnectionIsClosed(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int64
	addr := handler(t, func(w http.ResponseWriter, r *http.Request) { answer(w, "0", "", message("")) }, func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	})
	c := client(t, addr)
	if err := c.Revoke(within(t), 1); err != nil {
		t.Fatal(err)
	}
	servers.Eventually(t, "the connection is closed", func() bool { return closed.Load() == 1 })
	if err := c.Revoke(within(t), 1); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n != 2 {
		t.Fatalf("%d connections", n)
	}
}

// hanging is a server that answers pings, watches with nothing, and every other request never. It tells of those that have
// arrived.
func hanging(t *testing.T, opened *atomic.Int64, arrived chan<- bool) string {
	t.Helper()
	return handler(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "Watch/Watch") {
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = io.WriteString(w, message("\x18\x01")) // created
			_ = http.NewResponseController(w).Flush()
		} else {
			arrived <- true
		}
		<-r.Context().Done()
	}, func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	})
}

func TestAConnectionOnWhichARequestTimedOutTakesNoMore(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	arrived := make(chan bool, 1)
	c := client(t, hanging(t, &opened, arrived))
	w := watch(t, c, "k", "").stands(t)
	for i := range int64(3) {
		asked := untilTold{t.Context(), make(chan struct{})}
		go func() { <-arrived; close(asked.out) }()
		if _, err := c.Range(asked, rpc.Range{Key: []byte("k")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if n := opened.Load(); n != i+1 {
			t.Fatalf("%d connections after %d time-outs", n, i+1)
		}
	}
	w.stop() // the watch was let alone
	if err := w.end(t); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

// Two without an answer in between end what else is on the connection, though pings are answered.
func TestASecondTimeOutEndsTheConnection(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	arrived := make(chan bool, 2)
	c := client(t, hanging(t, &opened, arrived))
	w := watch(t, c, "k", "").stands(t)
	asked := untilTold{t.Context(), make(chan struct{})}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := c.Range(asked, rpc.Range{Key: []byte("k")}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
	<-arrived
	<-arrived
	close(asked.out)
	both.Wait()
	if n := opened.Load(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	if err := w.end(t); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

// untilTold is a context that runs out when it is told to.
type untilTold struct {
	context.Context
	out chan struct{}
}

func (c untilTold) Done() <-chan struct{} { return c.out }

func (c untilTold) Err() error {
	select {
	case <-c.out:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A server that takes the connection and does not go on with it.
func TestEveryCallReturnsWithItsContextWhileTLSHangs(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c := configured(t, rpc.Config{Endpoints: []string{l.Addr().String()}, TLS: servers.NewCertificates(t).Client()})
	for name, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := call(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("%s cancelled: got %v", name, err)
		}
		if err := call(soon(t), c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s timed out: got %v", name, err)
		}
	}
}
