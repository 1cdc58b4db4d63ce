package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
)

// What the answer to one request may take of memory in bytes, whatever a server sends. A record has a few kilobytes. A list
// has more room, of which there is one at a time.
const (
	most     = 2 << 20
	mostList = 8 << 20

	perMessage = 80 // beside its text, for what is made of it
	perColumn  = 32
	perReport  = 128

	longestText = 1000 // of an error, in bytes: it is shown to people
)

// output collects messages to be sent at once.
type output struct {
	b     []byte
	start int // of the length of the message that is being written
}

// begin starts a message of a type; 0: one of those at the beginning of a connection, which have none.
func (o *output) begin(kind byte) {
	if kind != 0 {
		o.b = append(o.b, kind)
	}
	o.start = len(o.b)
	o.b = append(o.b, 0, 0, 0, 0)
}

func (o *output) end() {
	binary.BigEndian.PutUint32(o.b[o.start:], uint32(len(o.b)-o.start)) //nolint:gosec // what we send is short
}

func (o *output) bytes(b []byte) { o.b = append(o.b, b...) }
func (o *output) text(s string)  { o.b = append(append(o.b, s...), 0) }
func (o *output) int16(n int)    { o.b = binary.BigEndian.AppendUint16(o.b, uint16(n)) } //nolint:gosec // counts of our own
func (o *output) int32(n int)    { o.b = binary.BigEndian.AppendUint32(o.b, uint32(n)) } //nolint:gosec // counts of our own

var errZeroByte = errors.New("a zero byte cannot be sent as text")

// statement adds the messages that run a statement: Parse and Bind of what has no name, and Execute.
func (o *output) statement(s Statement) error {
	if strings.Contains(s.SQL, "\x00") || len(s.Args) > math.MaxInt16 {
		return errZeroByte
	}
	o.begin('P')
	o.text("")
	o.text(s.SQL)
	o.int16(0) // types of parameters: the statement says them
	o.end()

	o.begin('B')
	o.text("")
	o.text("")
	o.int16(0) // formats of parameters: text
	o.int16(len(s.Args))
	for _, v := range s.Args {
		if !v.Valid {
			o.int32(-1)
			continue
		}
		if strings.Contains(v.Text, "\x00") { // the server would refuse it, and say what it was
			return errZeroByte
		}
		o.int32(len(v.Text))
		o.b = append(o.b, v.Text...)
	}
	o.int16(0) // formats of results: text
	o.end()

	o.begin('E')
	o.text("")
	o.int32(0) // all rows
	o.end()
	return nil
}

// message is one that a server sent, without its length.
type message struct {
	kind byte
	input
}

// source is where the messages of a server come from, no more of them than there is room for: what never ends is an error.
type source struct {
	*bufio.Reader
	room int64 // in bytes, of the answer that is being read
}

func newSource(r io.Reader) *source { return &source{Reader: bufio.NewReader(r), room: most} }

// spend takes room away.
func (s *source) spend(n int64) error {
	if s.room -= n; s.room < 0 {
		return unexpected("the server's answer is too long")
	}
	return nil
}

// receive reads one message. What it says takes its size once more.
func (s *source) receive() (message, error) {
	var head [5]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		return message{}, err
	}
	size := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if size < 0 || size > mostList {
		return message{}, unexpected("a message of %d bytes is not one of PostgreSQL", size)
	}
	if err := s.spend(2*size + perMessage); err != nil {
		return message{}, err
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(s, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return message{}, err
	}
	return message{kind: head[0], input: input{b: body}}, nil
}

// input takes a message apart. What is not there is remembered as torn, and is zero.
type input struct {
	b    []byte
	torn bool
}

func (i *input) take(n int) []byte {
	if n < 0 || n > len(i.b) {
		i.b, i.torn = nil, true
		return nil
	}
	taken := i.b[:n]
	i.b = i.b[n:]
	return taken
}

func (i *input) byte() byte {
	if b := i.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (i *input) int16() int {
	if b := i.take(2); b != nil {
		return int(int16(binary.BigEndian.Uint16(b))) //nolint:gosec // as the protocol has it
	}
	return 0
}

func (i *input) int32() int {
	if b := i.take(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b))) //nolint:gosec // as the protocol has it
	}
	return 0
}

func (i *input) text() string {
	before, after, found := bytes.Cut(i.b, []byte{0})
	if !found {
		i.b, i.torn = nil, true
		return ""
	}
	i.b = after
	return string(before)
}

// over returns an error if the message was shorter or longer than what was read of it.
func (m *message) over() error {
	if m.torn || len(m.b) > 0 {
		return unexpected("a message of type %q is malformed", m.kind)
	}
	return nil
}

// row reads a DataRow.
func (s *source) row(m *message) (Row, error) {
	n := m.int16()
	if n < 0 || n > len(m.b)/4 { // each has a length
		m.torn = true
		return nil, m.over()
	}
	if err := s.spend(int64(n) * perColumn); err != nil {
		return nil, err
	}
	row := slices.Grow(Row(nil), n)
	for range n {
		var v Value
		if size := m.int32(); size != -1 {
			v = Text(string(m.take(size)))
		}
		if m.torn {
			break
		}
		row = append(row, v)
	}
	return row, m.over()
}

// report reads an ErrorResponse or a NoticeResponse.
func (s *source) report(m *message) (*Error, error) {
	if err := s.spend(perReport); err != nil {
		return nil, err
	}
	e := new(Error)
	for {
		field := m.byte()
		if field == 0 {
			return e, m.over()
		}
		text := clip(m.text())
		switch field {
		case 'S': // in the server's language
			if e.Severity == "" {
				e.Severity = text
			}
		case 'V':
			e.Severity = text
		case 'C':
			e.Code = text
		case 'M':
			e.Message = text
		case 'D':
			e.Detail = text
		case 'H':
			e.Hint = text
		case 'R':
			e.Routine = text
		}
	}
}

// clip cuts a text that nobody would read to the end.
func clip(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "…"
}
