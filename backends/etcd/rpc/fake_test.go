package rpc_test

import (
	"context"
	"encoding/binary"
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

// Fakes, for what an etcd cannot be made to do.

// The types of HTTP/2 frames (RFC 9113, section 6).
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7
)

// frames is a server below HTTP/2: react is told of every HEADERS and DATA frame and writes what it wants.
type frames struct {
	addr            string
	conns, requests atomic.Int64
}

func newFrames(t *testing.T, react func(kind byte, stream uint32, last bool, c net.Conn)) *frames {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &frames{addr: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.conns.Add(1)
			all.Go(func() {
				stop := context.AfterFunc(t.Context(), func() { _ = c.Close() })
				defer stop()
				f.serve(c, react)
			})
		}
	})
	return f
}

func (f *frames) serve(c net.Conn, react func(byte, uint32, bool, net.Conn)) {
	defer func() { _ = c.Close() }()
	if _, err := io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	frame(c, frameSettings, 0, 0)
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, length); err != nil {
			return
		}
		kind, flags := head[3], head[4]
		switch {
		case kind == frameSettings && flags&1 == 0:
			frame(c, frameSettings, 1, 0)
		case kind == frameHeaders, kind == frameData:
			if kind == frameHeaders {
				f.requests.Add(1)
			}
			react(kind, binary.BigEndian.Uint32(head[5:]), flags&1 != 0, c)
		}
	}
}

func frame(c net.Conn, kind, flags byte, stream uint32, payload ...byte) {
	head := []byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = c.Write(append(head, payload...))
}

// A Transport of net/http repeats a request by rules of its own: a refused stream, a body that can be had again.
// Here the caller decides.
func TestNoRequestIsSentTwice(t *testing.T) {
	t.Parallel()
	refusedStream := []byte{0, 0, 0, 7}
	for name, react := range map[string]func(byte, uint32, bool, net.Conn){
		"the connection is dropped after the request": func(_ byte, _ uint32, last bool, c net.Conn) {
			if last {
				_ = c.Close()
			}
		},
		"the connection is dropped after the header": func(_ byte, _ uint32, _ bool, c net.Conn) { _ = c.Close() },
		"the stream is refused": func(_ byte, stream uint32, last bool, c net.Conn) {
			if last {
				frame(c, frameReset, 0, stream, refusedStream...)
			}
		},
		"the stream is reset with a protocol error": func(_ byte, stream uint32, last bool, c net.Conn) {
			if last {
				frame(c, frameReset, 0, stream, 0, 0, 0, 1)
			}
		},
		"the server says goodbye before the request": func(kind byte, _ uint32, _ bool, c net.Conn) {
			if kind == frameHeaders {
				frame(c, frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFrames(t, react)
			c := client(t, f.addr)
			for i := range int64(3) {
				_, err := c.Txn(within(t), rpc.Txn{})
				var status *rpc.Error
				if err == nil || errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v", err)
				}
				if n := f.requests.Load(); n != i+1 {
					t.Fatalf("%d requests after %d calls: %v", n, i+1, err)
				}
			}
		})
	}
}

func TestAServerThatHangsUpAtOnceIsDialledOncePerRequest(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	addr, _ := servers.ByHand(t, func(net.Conn) { conns.Add(1) })
	c := client(t, addr)
	for i := range int64(20) {
		_, err := c.Range(within(t), rpc.Range{Key: []byte("k")})
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if n := conns.Load(); n > i+1 {
			t.Fatalf("%d connections for %d requests", n, i+1)
		}
	}
}

// handler is a server of HTTP/2 that answers what it is told.
func handler(t *testing.T, h http.HandlerFunc, states func(net.Conn, http.ConnState)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true)
	s := &http.Server{Handler: h, Protocols: protocols, ReadHeaderTimeout: time.Minute, ConnState: states}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

// answer sends messages, each with its head, and ends with a status.
func answer(w http.ResponseWriter, status, message string, parts ...string) {
	w.Header().Set("Content-Type", "application/grpc")
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
	w.Header().Set(http.TrailerPrefix+"Grpc-Message", message)
}

func message(payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload)))) + payload
}

func TestStatus(t *testing.T) {
	var h atomic.Value
	c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) { h.Load().(func(http.ResponseWriter))(w) }, nil))
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		want   rpc.Error
	}{
		"in the trailers":       {func(w http.ResponseWriter) { answer(w, "9", "not%20now: 100%25") }, rpc.Error{Code: rpc.FailedPrecondition, Message: "not now: 100%"}},
		"after a message":       {func(w http.ResponseWriter) { answer(w, "14", "gone", message("")) }, rpc.Error{Code: rpc.Unavailable, Message: "gone"}},
		"that nobody knows yet": {func(w http.ResponseWriter) { answer(w, "99", "") }, rpc.Error{Code: 99}},
		"in the headers": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "5")
			w.Header().Set("Grpc-Message", "no")
		}, rpc.Error{Code: rpc.NotFound, Message: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			h.Store(tt.answer)
			_, err := c.Txn(within(t), rpc.Txn{})
			var got *rpc.Error
			if !errors.As(err, &got) || *got != tt.want {
				t.Fatalf("got %v, want %v", err, &tt.want)
			}
		})
	}
}

func TestAnswersThatAreNoneLeaveTheOutcomeOpen(t *testing.T) {
	var h atomic.Value
	c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) { h.Load().(func(http.ResponseWriter))(w) }, nil))
	for name, a := range map[string]func(http.ResponseWriter){
		"no message":             func(w http.ResponseWriter) { answer(w, "0", "") },
		"two messages":           func(w http.ResponseWriter) { answer(w, "0", "", message(""), message("")) },
		"a message cut off":      func(w http.ResponseWriter) { answer(w, "0", "", message("\x10\x01\x10\x01")[:7]) },
		"a head cut off":         func(w http.ResponseWriter) { answer(w, "0", "", "\x00\x00") },
		"a malformed message":    func(w http.ResponseWriter) { answer(w, "0", "", message("\x10")) },
		"a compressed message":   func(w http.ResponseWriter) { answer(w, "0", "", "\x01"+message("")[1:]) },
		"a message too long":     func(w http.ResponseWriter) { answer(w, "0", "", "\x00\xff\xff\xff\xff") },
		"a length that is a lie": func(w http.ResponseWriter) { answer(w, "0", "", "\x00\x00\xff\xff\xffx") },
		"no status": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = io.WriteString(w, message(""))
		},
		"a status that is no number": func(w http.ResponseWriter) { answer(w, "-1", "", message("")) },
		"not gRPC":                   func(w http.ResponseWriter) { _, _ = io.WriteString(w, message("")) },
		"an error of HTTP":           func(w http.ResponseWriter) { http.Error(w, "no", http.StatusNotFound) },
	} {
		t.Run(name, func(t *testing.T) {
			h.Store(a)
			_, err := c.Txn(within(t), rpc.Txn{})
			var status *rpc.Error
			if err == nil || errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestAStatusThatSwitchesTheEndpoint(t *testing.T) {
	t.Parallel()
	good := handler(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, "0", "", message("")) }, nil)
	for status, elsewhere := range map[string]bool{
		"1 canceled": true, "2 unknown": true, "4 context deadline exceeded": true, "13 internal": true,
		"14 etcdserver: no leader": true, "14 etcdserver: request timed out": true, "15 etcdserver: corrupt cluster": true,
		"16 etcdserver: invalid auth token": true, "9 etcdserver: not leader": true,
		"9 etcdserver: rpc not supported for learner": true,
		"3 etcdserver: key is not provided":           false, "5 etcdserver: requested lease not found": false,
		"7 etcdserver: permission denied": false, "8 etcdserver: too many requests": false,
		"9 etcdserver: lease already exists": false, "11 etcdserver: too large lease TTL": false, "12 unimplemented": true, // one that is older than the others
	} {
		code, text, _ := strings.Cut(status, " ")
		bad := handler(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, code, text) }, nil)
		c := client(t, bad, good)
		if err := c.Revoke(within(t), 1); err == nil {
			t.Errorf("%s: no error", status)
		}
		if err := c.Revoke(within(t), 1); (err == nil) != elsewhere {
			t.Errorf("%s: the next request: %v", status, err)
		}
	}
}
