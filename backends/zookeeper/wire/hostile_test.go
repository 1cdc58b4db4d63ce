package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/suite"
)

const mostMemory = 16 << 20 // of a request, whatever is answered

func framed(message []byte) []byte {
	return encoder{}.buffer(message)
}

func header(xid int32, code Code) []byte {
	return body(func(e *writer) { e.int32(xid); e.int64(1); e.int32(int32(code)) })
}

func eventOf(path string) []byte {
	return append(header(xidEvent, codeOK), body(func(e *writer) { e.int32(3); e.int32(3); e.string(path) })...)
}

// TestEndlessAnswer: hazard: a server that never comes to an end, or announces what it never sends, takes all memory or holds a
// request for ever. The test is not parallel: it looks at the memory of the process.
func TestEndlessAnswer(t *testing.T) {
	const enough = 20 << 20 // what a server sends before it ends by itself
	list := func(items, each int) []byte {
		return append(header(1, codeOK), body(func(e *writer) {
			e.int32(int32(items)) //nolint:gosec // small
			e.b = append(e.b, make([]byte, items*each)...)
		})...)
	}
	for name, c := range map[string]struct {
		op    Op
		first []byte
		again []byte
	}{
		"events without a watch":       {GetData("/a"), nil, framed(eventOf("/a"))},
		"events":                       {WatchData("/a"), nil, framed(eventOf("/a"))},
		"events of another node":       {WatchData("/a"), nil, framed(eventOf("/b"))},
		"pings":                        {GetData("/a"), nil, framed(header(xidPing, codeOK))},
		"passwords that are accepted":  {GetData("/a"), nil, framed(header(xidAuth, codeOK))},
		"nothing":                      {GetData("/a"), nil, framed(nil)},
		"a frame that does not come":   {GetData("/a"), []byte{0, 0x30, 0, 0}, nil},
		"data without an end":          {GetData("/a"), []byte{3, 0xf0, 0, 0}, make([]byte, 1<<16)},
		"names of nothing":             {GetChildren("/a"), framed(list(3<<20/4*5, 4)), nil},
		"rights of nothing":            {GetACL("/a"), framed(list(3<<20/4, 12)), nil},
		"as many names as are allowed": {GetChildren("/a"), framed(list(100_001, 40)), nil},
	} {
		gone := make(chan int, 1)
		f := serve(t, nil, func(s *stream) {
			_, _, _ = s.request()
			n, err := s.Write(c.first)
			for err == nil && n < enough && c.again != nil {
				var m int
				m, err = s.Write(c.again)
				n += m
			}
			gone <- n
			if c.again == nil { // the client hangs up first
				_, _, _ = s.request()
			}
		})
		taken := suite.Allocated(func() {
			conn, err := Dial(t.Context(), f.addr, Config{Changed: func(string) {}}, Session{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = conn.Do(ctx, NewCall(c.op))
			if _, ok := errors.AsType[*ProtocolError](err); !ok {
				t.Errorf("%s: %v", name, err)
			}
		})
		if n := <-gone; taken > mostMemory || n >= enough {
			t.Errorf("%s: %d bytes of memory, after %d were sent", name, taken, n)
		}
	}
}

// TestMultiThatFailedForNothing: results of a failure among which nothing has failed are not those of a success.
func TestMultiThatFailedForNothing(t *testing.T) {
	t.Parallel()
	for _, code := range []Code{codeOK, codeNotTried} {
		c := dial(t, serve(t, nil, func(s *stream) {
			xid, _, _ := s.request()
			s.reply(xid, codeOK, results(func(e *writer, head func(int32, bool)) {
				for range 2 {
					head(opError, false)
					e.int32(int32(code))
				}
				head(-1, true)
			}))
		}).addr, nil)
		broken(t, c, Multi(SetData("/a", nil, 1), Delete("/b", 0)), "makes no sense")
	}
}
