package rpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestLargeAnswers: hazard: one message takes all memory, by its length or by what it becomes.
func TestLargeAnswers(t *testing.T) { // not parallel: it measures what is allocated
	const mb = 1 << 20
	var h atomic.Value
	c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) { h.Load().(func(http.ResponseWriter))(w) }, nil))
	inside := func(outer byte, payload string) string {
		return string(binary.AppendUvarint([]byte{outer<<3 | 2}, uint64(len(payload)))) + payload
	}
	keys := func(n int) string { return strings.Repeat("\x12\x00", n/2) } // RangeResponse.kvs
	for name, payload := range map[string]string{
		"long":                      strings.Repeat("\x00", 15*mb),
		"empty keys":                keys(15 * mb),
		"empty keys, no longer":     keys(2*mb - 16),
		"empty keys in operations":  inside(3, inside(1, keys(mb))),
		"empty events":              strings.Repeat("\x5a\x00", mb), // WatchResponse.events, and StatusResponse.errors
		"one field again and again": strings.Repeat("\x10\x01", mb), // more_results, succeeded, id
	} {
		h.Store(func(w http.ResponseWriter) { answer(w, "0", "", message(payload)) })
		for call, ask := range map[string]func(ctx context.Context) error{
			"Range":     func(ctx context.Context) error { _, err := c.Range(ctx, rpc.Range{}); return err },
			"Txn":       func(ctx context.Context) error { _, err := c.Txn(ctx, rpc.Txn{}); return err },
			"KeepAlive": func(ctx context.Context) error { _, err := c.KeepAlive(ctx, 1); return err },
			"Status":    func(ctx context.Context) error { _, err := c.Status(ctx); return err },
			"Members":   func(ctx context.Context) error { _, err := c.Members(ctx); return err },
			"Watch":     func(ctx context.Context) error { return c.Watch(ctx, nil, nil, func(rpc.WatchReply) {}) },
		} {
			var err error
			took := suite.Allocated(func() { err = ask(within(t)) }) / mb
			if took > 40 { // the server of the test allocates, too
				t.Errorf("%s of %s: %d MB were allocated", call, name, took)
			}
			if errors.Is(err, context.DeadlineExceeded) || len(payload) > 4*mb && err == nil {
				t.Errorf("%s of %s: %v", call, name, err)
			}
		}
	}
}

// TestLongTexts: what a server says of a failure is cut for people, and known all the same.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20<<10)
	c := client(t, handler(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, "5", long) }, nil))
	_, err := c.Txn(within(t), rpc.Txn{})
	if e, ok := errors.AsType[*rpc.Error](err); !ok || e.Code != rpc.NotFound || len(err.Error()) > 2000 {
		t.Errorf("%.100v", err)
	}
	c = client(t, handler(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("A", strings.Repeat(long, 5))
		w.WriteHeader(http.StatusOK)
	}, nil))
	if _, err = c.Txn(within(t), rpc.Txn{}); err == nil || errors.Is(err, context.DeadlineExceeded) || len(err.Error()) > 2000 {
		t.Errorf("a header of 100 kB: %.100v", err)
	}
}

// TestFloods: hazard: frames that do not end take all memory, or hold up a request beyond its context.
func TestFloods(t *testing.T) { // not parallel: it measures what is allocated
	const (
		frameContinuation = 9
		framePing         = 6
	)
	headers := []byte("\x00\x01a\x01b") // a literal header field, not indexed
	for name, flood := range map[string]func(stream uint32, c net.Conn){
		"headers": func(stream uint32, c net.Conn) {
			frame(c, frameHeaders, 0, stream, 0x88) // :status 200, and more
			for range 1 << 15 {
				frame(c, frameContinuation, 0, stream, headers...)
			}
		},
		"101": func(stream uint32, c net.Conn) { frame(c, frameHeaders, 4, stream, 0x08, 3, '1', '0', '1') },
		"data without an end": func(stream uint32, c net.Conn) {
			frame(c, frameHeaders, 4, stream, 0x88, 0x0f, 0x10, 16, 'a', 'p', 'p', 'l', 'i', 'c', 'a', 't', 'i', 'o', 'n', '/', 'g', 'r', 'p', 'c')
			for range 1 << 13 {
				frame(c, frameData, 0, stream, make([]byte, 250)...)
			}
		},
	} {
		f := newFrames(t, func(_ byte, stream uint32, last bool, c net.Conn) {
			if last {
				flood(stream, c)
			}
		})
		c := client(t, f.addr)
		took := suite.Allocated(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			ended := make(chan error, 1)
			go func() { _, err := c.Txn(ctx, rpc.Txn{}); ended <- err }()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s: no error", name)
				}
			case <-time.After(enough):
				t.Fatalf("%s: the request goes on", name)
			}
		}) >> 20
		if took > 40 {
			t.Errorf("%s: %d MB were allocated", name, took)
		}
	}
}
