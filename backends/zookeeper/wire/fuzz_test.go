package wire

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"time"
)

// script is a connection to a server that has said everything already.
type script struct {
	net.Conn
	says *bytes.Reader
}

func (s *script) Read(b []byte) (int, error)  { return s.says.Read(b) }
func (s *script) Write(b []byte) (int, error) { return len(b), nil }
func (s *script) Close() error                { return nil }

func scripted(said []byte) *Conn {
	s := &script{says: bytes.NewReader(said)}
	return &Conn{net: s, raw: s, reader: bufio.NewReader(s), watches: map[string]int{}, dead: make(chan struct{})}
}

// FuzzReplies: requests get the answer that is theirs, or the connection is at its end; of one watch there is one event at most.
func FuzzReplies(f *testing.F) {
	list := body(func(e *writer) { e.int32(2); e.string("a"); e.string("b") })
	rights := append(body(func(e *writer) { e.int32(1); e.int32(31); e.string("world"); e.string("anyone") }), stat(1)...)
	done := results(func(e *writer, head func(int32, bool)) {
		head(opCreate, false)
		e.string("/a")
		head(opSetData, false)
		e.b = append(e.b, stat(9)...)
		head(opDelete, false)
		head(-1, true)
	})
	failed := results(func(e *writer, head func(int32, bool)) {
		for _, code := range []Code{codeOK, BadVersion, codeNotTried} {
			head(opError, false)
			e.int32(int32(code))
		}
		head(-1, true)
	})
	for kind, reply := range [][]byte{node("data", 42), stat(1), list, rights, done, body(func(e *writer) { e.string("/a") }), nil} {
		first := framed(append(header(1, codeOK), reply...))
		f.Add(uint8(kind), append(append(framed(eventOf("/a")), first...), framed(append(header(2, codeOK), node("x", 1)...))...)) //nolint:gosec // seven
		f.Add(uint8(kind), append(first, framed(header(2, NoNode))...))                                                            //nolint:gosec // seven
	}
	f.Add(uint8(4), framed(append(header(1, codeOK), failed...)))
	f.Add(uint8(6), append(framed(header(xidPing, codeOK)), framed(header(xidAuth, AuthFailed))...))
	multi := Multi(Create("/a", nil, World(), true), SetData("/a", nil, 0), Delete("/b", 1))
	ops := []Op{WatchData("/a"), Exists("/a", true), GetChildren("/a"), GetACL("/a"), multi, Sync("/a"), Ping()}
	f.Fuzz(func(t *testing.T, kind uint8, said []byte) {
		c := scripted(said)
		events := 0
		c.changed = func(path string) {
			if events++; path != "/a" {
				t.Errorf("an event of %q", path)
			}
		}
		first, second := NewCall(ops[int(kind)%len(ops)]), NewCall(GetData("/b"))
		if err := c.send(t.Context(), []*Call{first, second}); err != nil {
			t.Fatal(err)
		}
		c.read() // returns: nothing goes on for ever
		answered := func(call *Call) bool {
			select {
			case <-call.done:
				return true
			default:
				return false
			}
		}
		if events > 1 || events > 0 && !first.Op.Watch || c.Usable() {
			t.Errorf("%d events", events)
		}
		if len(first.Children) > maxItems || len(first.ACL) > maxItems {
			t.Errorf("%d names, %d rights", len(first.Children), len(first.ACL))
		}
		if answered(first) && first.Op.Code == opMulti && first.Err == nil && len(first.Stats) != len(multi.Ops) {
			t.Errorf("a multi with %d results", len(first.Stats))
		}
		if answered(second) && first.Op.Code != opPing && !answered(first) {
			t.Error("the second request is answered before the first")
		}
	})
}

// FuzzOpening: what opens a session is one that was asked for, or an error.
func FuzzOpening(f *testing.F) {
	f.Add(framed(opened()), int64(0))
	f.Add(framed(opened()), int64(4711))
	f.Add(framed(connected(0, 0)), int64(4711))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), int64(0))
	f.Fuzz(func(t *testing.T, said []byte, id int64) {
		c := scripted(said)
		if c.connect(Config{User: "u", Password: "p"}, Session{ID: id, Timeout: time.Minute}) != nil {
			return
		}
		if s := c.Session(); s.ID == 0 || id != 0 && s.ID != id || s.Timeout <= 0 || len(s.Password) > maxOpening {
			t.Errorf("%+v", s)
		}
	})
}
