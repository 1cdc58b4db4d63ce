package wire

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// What the answer to one request may take of memory in bytes, whatever a server sends. A record has a few kilobytes. A list
// has more room, of which there is one at a time.
const (
	most     = 2 << 20
	mostList = 8 << 20

	perMessage = 80 // beside its text, for what is made of it
	perColumn  = 32
	perReport  = 512

	longestProof = 2000 // of a message that is looked at before it is read, in bytes: an Authentication message, as libpq has it
)

// source is what the library reads a server's messages from: no more of them than there is room for, and in the log-in none that must
// not come. The library never sees a message that is refused here. source hands over one message at a time, so that the library never
// holds the beginning of the next one.
type source struct {
	in   *bufio.Reader
	room int64 // in bytes, of the answer that is being read

	logIn *logIn // nil: it is over
	kind  byte   // of the last message
	size  int    // of its body
	left  int    // bytes of it that were not handed over yet
	err   error  // that Read has returned
}

func newSource(r io.Reader) *source { return &source{in: bufio.NewReader(r), room: most} }

// Read hands over a message, or a part of one. An error with which its connection has timed out leaves everything as it was.
func (s *source) Read(p []byte) (n int, err error) {
	if s.left == 0 {
		err = s.next()
	}
	if err == nil {
		n, err = s.in.Read(p[:min(len(p), s.left)])
		s.left -= n
	}
	if errors.Is(err, io.EOF) && (s.left > 0 || s.in.Buffered() > 0) {
		err = io.ErrUnexpectedEOF
	}
	s.err = err
	return n, err
}

// next looks at the message that begins.
func (s *source) next() error {
	head, err := s.in.Peek(5)
	if err != nil {
		return err
	}
	kind, size := head[0], int64(binary.BigEndian.Uint32(head[1:]))-4
	looked := kind == 'R' || kind == 'Z' // at the whole of it
	if size < 0 || size > mostList || looked && size > longestProof {
		return unexpected("a message of %d bytes is not one of PostgreSQL", size)
	}
	var body []byte
	if looked {
		message, err := s.in.Peek(5 + int(size))
		if err != nil {
			return err
		}
		body = message[5:]
	}
	if err := s.spend(2*size + perMessage); err != nil { // what it says takes its size once more
		return err
	}
	s.kind, s.size = kind, int(size)
	switch {
	case kind == 'Z' && string(body) != "I": // we leave no transaction open
		err = unexpected("the server is ready for something else")
	case s.logIn != nil:
		err = s.logIn.handle(kind, body)
	case !strings.ContainsRune("12ACDEINSZ", rune(kind)):
		err = unexpected("a message of type %q that nobody asked for", kind)
	}
	if err == nil {
		s.left = 5 + s.size
	}
	return err
}

// spend takes room away.
func (s *source) spend(n int64) error {
	if s.room -= n; s.room < 0 {
		return unexpected("the server's answer is too long")
	}
	return nil
}

// receive reads one message with the library. Its content counts until the next one is read.
func (s *source) receive(front *pgproto3.Frontend) (pgproto3.BackendMessage, error) {
	s.err = nil
	m, err := front.Receive()
	if err != nil {
		return nil, cmp.Or(s.err, s.malformed())
	}
	return m, nil
}

func (s *source) malformed() error { return unexpected("a message of type %q is malformed", s.kind) }

// row copies a DataRow, the last message.
func (s *source) row(m pgproto3.BackendMessage) (Row, error) {
	data, ok := m.(*pgproto3.DataRow)
	if !ok {
		return nil, s.malformed()
	}
	if err := s.spend(int64(len(data.Values)) * perColumn); err != nil {
		return nil, err
	}
	row := slices.Grow(Row(nil), len(data.Values))
	size := 2
	for _, v := range data.Values {
		size += 4 + len(v)
		row = append(row, Value{Text: string(v), Valid: v != nil})
	}
	if size != s.size { // the library does not mind what follows
		return nil, s.malformed()
	}
	return row, nil
}

// reportOf is what a server says of an error, or as a notice.
func reportOf(m *pgproto3.ErrorResponse) *Error {
	return &Error{
		Severity: httplimit.Brief(cmp.Or(m.SeverityUnlocalized, m.Severity)), Code: httplimit.Brief(m.Code),
		Message: httplimit.Brief(m.Message), Routine: httplimit.Brief(m.Routine),
	}
}
