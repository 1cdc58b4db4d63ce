package wire

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/waits"
)

// patience is how long something that must happen may take on a busy machine.
var patience = waits.Patience

// fake is a server that answers as told.
type fake struct {
	testing.TB
	addr string

	mu       sync.Mutex
	sessions []int64 // that were asked for, one for each connection
	conns    []net.Conn
}

// opened is what a fake answers to who opens a session.
func opened() []byte { return connected(10_000, 4711) }

func connected(timeout int32, id int64) []byte {
	return body(func(e *writer) {
		e.int32(0)
		e.int32(timeout)
		e.int64(id)
		e.buffer(make([]byte, 16))
		e.bool(false)
	})
}

// serve starts a fake: serve is called on each connection, after the session was answered with hello (nil: a session).
func serve(t *testing.T, hello []byte, answer func(s *stream)) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{TB: t, addr: l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				s := &stream{Conn: conn}
				request, ok := s.next()
				if !ok {
					return
				}
				d := &decoder{b: request}
				_, _, _ = d.int32(), d.int64(), d.int32()
				f.mu.Lock()
				f.sessions = append(f.sessions, d.int64())
				f.mu.Unlock()
				if hello == nil {
					hello = opened()
				}
				s.send(hello)
				if answer != nil {
					answer(s)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			_ = c.Close()
		}
		f.mu.Unlock()
		serving.Wait()
	})
	return f
}

// stream is one connection as the server has it.
type stream struct {
	net.Conn
}

// next returns the next message; not ok: the connection is over.
func (s *stream) next() (message []byte, ok bool) {
	var length [4]byte
	if _, err := io.ReadFull(s, length[:]); err != nil {
		return nil, false
	}
	message = make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(s, message)
	return message, err == nil
}

// request returns the number and the kind of the next request.
func (s *stream) request() (xid, code int32, ok bool) {
	message, ok := s.next()
	d := &decoder{b: message}
	return d.int32(), d.int32(), ok
}

func (s *stream) send(message []byte) {
	_, _ = s.Write(encoder{}.buffer(message))
}

// reply answers a request.
func (s *stream) reply(xid int32, code Code, rest []byte) {
	s.send(append(body(func(e *writer) {
		e.int32(xid)
		e.int64(1)
		e.int32(int32(code))
	}), rest...))
}

// writer writes jute line by line.
type writer struct{ b encoder }

func (w *writer) int32(v int32)   { w.b = w.b.int32(v) }
func (w *writer) int64(v int64)   { w.b = w.b.int64(v) }
func (w *writer) bool(v bool)     { w.b = w.b.bool(v) }
func (w *writer) buffer(v []byte) { w.b = w.b.buffer(v) }
func (w *writer) string(v string) { w.b = w.b.string(v) }

func body(write func(e *writer)) []byte {
	e := &writer{}
	write(e)
	return e.b
}

// node is the body of a reply to GetData.
func node(data string, czxid int64) []byte {
	return body(func(e *writer) { e.string(data); e.b = append(e.b, stat(czxid)...) })
}

func stat(czxid int64) []byte {
	return body(func(e *writer) {
		e.int64(czxid)
		e.int64(czxid + 1)
		e.int64(0)
		e.int64(0)
		e.int32(7)
		e.int32(0)
		e.int32(0)
		e.int64(4711)
		e.int32(5)
		e.int32(2)
		e.int64(0)
	})
}

func dial(t *testing.T, addr string, changed func(string)) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), addr, Config{Changed: changed}, Session{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
