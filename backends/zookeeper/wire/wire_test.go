package wire

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// do makes one request that must be answered.
func do(t *testing.T, c *Conn, op Op) *Call {
	t.Helper()
	call := NewCall(op)
	if err := c.Do(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	return call
}

// broken makes one request that must break the connection, with a reason.
func broken(t *testing.T, c *Conn, op Op, want string) {
	t.Helper()
	err := c.Do(t.Context(), NewCall(op))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if _, answered := errors.AsType[*Error](err); answered || c.Usable() {
		t.Errorf("%v is taken for an answer, or the connection is still used", err)
	}
	if err := c.Do(t.Context(), NewCall(op)); err == nil {
		t.Error("a dead connection takes requests")
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	f := serve(t, nil, nil)
	c := dial(t, f.addr, nil)
	want := Session{ID: 4711, Password: make([]byte, 16), Timeout: 10 * time.Second}
	if diff := cmp.Diff(want, c.Session()); diff != "" {
		t.Error(diff)
	}
	again, err := Dial(t.Context(), f.addr, Config{}, c.Session())
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if diff := cmp.Diff([]int64{0, 4711}, f.sessions); diff != "" {
		t.Error(diff)
	}
}

// TestExpiredAtReconnect: a session that is no more has neither timeout nor number.
func TestExpiredAtReconnect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hello   []byte
		expired bool
	}{
		"expired":                {connected(0, 0), true},
		"a negative timeout":     {connected(-1, 4711), true},
		"another session":        {connected(10_000, 4712), false},
		"half an answer":         {connected(10_000, 4711)[:17], false},
		"a long password":        {append(connected(10_000, 4711)[:16], append([]byte{0, 0x10, 0, 0}, make([]byte, 1<<20+1)...)...), false},
		"a password of -5":       {append(connected(10_000, 4711)[:16], 0xff, 0xff, 0xff, 0xfb), false},
		"nothing but a length":   {nil, false},
		"an old server's answer": {connected(10_000, 4711)[:36], false},
	} {
		f := serve(t, c.hello, nil)
		if c.hello == nil {
			f = serve(t, []byte{}, nil)
		}
		conn, err := Dial(t.Context(), f.addr, Config{}, Session{ID: 4711, Timeout: time.Minute})
		if name == "an old server's answer" { // which says nothing of read-only
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			conn.Close()
			continue
		}
		if err == nil || errors.Is(err, ErrExpired) != c.expired {
			t.Errorf("%s: %v, want expired: %v", name, err, c.expired)
		}
	}
}

// TestEventBetweenReplies: what a watch sees comes when it likes, and is no reply.
func TestEventBetweenReplies(t *testing.T) {
	t.Parallel()
	changed := make(chan string, 3)
	event := func(s *stream, path string) {
		s.send(body(func(e *writer) {
			e.int32(xidEvent)
			e.int64(-1)
			e.int32(0)
			e.int32(2)
			e.int32(3)
			e.string(path)
		}))
	}
	c := dial(t, serve(t, nil, func(s *stream) {
		one, _, _ := s.request()
		two, _, _ := s.request()
		event(s, "/before")
		s.reply(one, codeOK, stat(1))
		event(s, "/between")
		s.reply(xidPing, codeOK, nil)
		s.reply(two, codeOK, node("x", 1))
	}).addr, func(path string) { changed <- path })
	watch, read := NewCall(Exists("/before", true)), NewCall(WatchData("/between"))
	ping := NewCall(Ping())
	if err := c.Do(t.Context(), watch, read, ping); err != nil || watch.Err != nil || string(read.Data) != "x" {
		t.Fatalf("%v, %v, %q", err, watch.Err, read.Data)
	}
	for _, path := range []string{"/before", "/between"} {
		if diff := cmp.Diff(path, <-changed); diff != "" {
			t.Error(diff)
		}
	}
}

// TestNonsense: a reply that cannot be right breaks the connection, and is never an answer.
func TestNonsense(t *testing.T) {
	t.Parallel()
	ok := func(xid int32, rest ...byte) []byte {
		return append(body(func(e *writer) { e.int32(xid); e.int64(1); e.int32(0) }), rest...)
	}
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"torn":                    {framed(ok(1, node("data", 1)...))[:30], "EOF"},
		"torn in the length":      {[]byte{0, 0}, "EOF"},
		"a negative frame":        {[]byte{0xff, 0xff, 0xff, 0xff}, "a frame of -1 bytes"},
		"an oversized frame":      {[]byte{0x7f, 0xff, 0xff, 0xff}, "a frame of 2147483647 bytes"},
		"a header cut short":      {framed(ok(1)[:9]), "makes no sense"},
		"another number":          {framed(ok(2, node("data", 1)...)), "not asked"},
		"a ping that nobody sent": {framed(ok(xidPing)), "not asked"},
		"a negative length":       {framed(ok(1, 0xff, 0xff, 0xff, 0xfe)), "a length of -2"},
		"a length too long":       {framed(ok(1, 0, 0, 1, 0)), "a length of 256"},
		"no stat":                 {framed(ok(1, 0, 0, 0, 1, 'x')), "makes no sense"},
		"another protocol":        {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "a frame of"},
	} {
		conn := dial(t, serve(t, nil, func(s *stream) {
			_, _, _ = s.request()
			_, _ = s.Write(c.raw)
		}).addr, nil)
		t.Log(name)
		broken(t, conn, GetData("/a"), c.want)
	}
}

// TestAnsweredTwice: the second answer to one request is not the first to the next.
func TestAnsweredTwice(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, nil, func(s *stream) {
		xid, _, _ := s.request()
		s.reply(xid, codeOK, node("one", 1))
		_, _, _ = s.request()
		s.reply(xid, codeOK, node("one", 1))
	}).addr, nil)
	if got := do(t, c, GetData("/a")); string(got.Data) != "one" {
		t.Errorf("%q", got.Data)
	}
	broken(t, c, GetData("/b"), "not asked")
}

// TestLateReply: the context of a request ends before its answer comes. The connection is not used again, so that the
// answer cannot be taken for that to another.
func TestLateReply(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	c := dial(t, serve(t, nil, func(s *stream) {
		xid, _, _ := s.request()
		close(asked)
		if _, _, ok := s.request(); ok {
			s.reply(xid, codeOK, node("late", 1))
		}
	}).addr, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if err := c.Do(ctx, NewCall(GetData("/a"))); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if call := NewCall(GetData("/b")); c.Usable() || c.Do(t.Context(), call) == nil {
		t.Errorf("the connection is used again: %q", call.Data)
	}
}

// TestSilentServer: whoever is waited for, the end of the context is the end of the wait.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f := serve(t, []byte{}, nil)
	if _, err := Dial(ctx, f.addr, Config{}, Session{}); err == nil {
		t.Error("a session of an empty answer")
	}
	hung := make(chan struct{})
	defer close(hung)
	l := serve(t, nil, func(*stream) { <-hung })
	c := dial(t, l.addr, nil)
	if err := c.Do(ctx, NewCall(GetData("/a"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// results is the body of a reply to a Multi.
func results(write func(e *writer, head func(code int32, done bool))) []byte {
	return body(func(e *writer) {
		write(e, func(code int32, done bool) { e.int32(code); e.bool(done); e.int32(-1) })
	})
}

func TestMulti(t *testing.T) {
	t.Parallel()
	done := results(func(e *writer, head func(int32, bool)) {
		head(opCreate, false)
		e.string("/a")
		head(opSetData, false)
		e.b = append(e.b, stat(9)...)
		head(opDelete, false)
		head(opCheck, false)
		head(-1, true)
	})
	failed := func(codes ...Code) []byte {
		return results(func(e *writer, head func(int32, bool)) {
			for _, c := range codes {
				head(opError, false)
				e.int32(int32(c))
			}
			head(-1, true)
		})
	}
	replies := [][]byte{done, failed(codeOK, codeOK, BadVersion, codeNotTried), failed(NoNode, codeNotTried, codeNotTried, codeNotTried)}
	c := dial(t, serve(t, nil, func(s *stream) {
		for _, reply := range replies {
			xid, code, _ := s.request()
			if code != opMulti {
				t.Errorf("request %d", code)
			}
			s.reply(xid, codeOK, reply)
		}
	}).addr, nil)
	multi := Multi(Create("/a", nil, World(), true), SetData("/a", []byte("x"), 0), Delete("/b", 1), Check("/c", 2))
	got := do(t, c, multi)
	if got.Err != nil || len(got.Stats) != 4 || got.Stats[1].Czxid != 9 {
		t.Errorf("%v, %+v", got.Err, got.Stats)
	}
	for _, want := range []Error{{Code: BadVersion, Index: 2, Path: "/b"}, {Code: NoNode, Index: 0, Path: "/a"}} {
		e, ok := errors.AsType[*Error](do(t, c, multi).Err)
		if !ok || *e != want {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}

// TestMultiOfSomethingElse: results that are not those of the operations prove nothing.
func TestMultiOfSomethingElse(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string][]byte{
		"none":    results(func(_ *writer, head func(int32, bool)) { head(-1, true) }),
		"too few": results(func(_ *writer, head func(int32, bool)) { head(opCheck, false); head(-1, true) }),
		"too many": results(func(_ *writer, head func(int32, bool)) {
			head(opCheck, false)
			head(opDelete, false)
			head(opDelete, false)
			head(-1, true)
		}),
		"another":       results(func(_ *writer, head func(int32, bool)) { head(opDelete, false); head(opDelete, false); head(-1, true) }),
		"without a end": results(func(_ *writer, head func(int32, bool)) { head(opCheck, false); head(opDelete, false) }),
	} {
		c := dial(t, serve(t, nil, func(s *stream) {
			xid, _, _ := s.request()
			s.reply(xid, codeOK, reply)
		}).addr, nil)
		t.Log(name)
		broken(t, c, Multi(Check("/a", 0), Delete("/b", 0)), "makes no sense")
	}
}

// TestSessionExpiredWhileOpen: the server's word that the session is over is ErrExpired, however it is said.
func TestSessionExpiredWhileOpen(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, nil, func(s *stream) {
		xid, _, _ := s.request()
		s.reply(xid, SessionExpired, nil)
	}).addr, nil)
	if err := do(t, c, GetData("/a")).Err; !errors.Is(err, ErrExpired) {
		t.Errorf("%v", err)
	}
}

// TestAuthenticationRefused: the answer to a password comes before that to the request after it.
func TestAuthenticationRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, nil, func(s *stream) {
		xid, code, _ := s.request()
		if xid != xidAuth || code != opAuth {
			t.Errorf("request %d, %d", xid, code)
		}
		s.reply(xid, AuthFailed, nil)
	})
	c, err := Dial(t.Context(), f.addr, Config{User: "u", Password: "hunter2"}, Session{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), NewCall(GetData("/a"))); !Is(err, AuthFailed) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
