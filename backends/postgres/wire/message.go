package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
)

// largest is the size in bytes of the largest message that is taken from a server. A record has a few kilobytes.
const largest = 16 << 20

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

// receive reads one message.
func receive(r *bufio.Reader) (message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	size := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if size < 0 || size > largest {
		return message{}, unexpected("a message of %d bytes is not one of PostgreSQL", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
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
	before, after, found := strings.Cut(string(i.b), "\x00")
	if !found {
		i.b, i.torn = nil, true
		return ""
	}
	i.b = i.b[len(i.b)-len(after):]
	return before
}

// over returns an error if the message was shorter or longer than what was read of it.
func (m *message) over() error {
	if m.torn || len(m.b) > 0 {
		return unexpected("a message of type %q is malformed", m.kind)
	}
	return nil
}

// row reads a DataRow.
func (m *message) row() (Row, error) {
	n := m.int16()
	if n < 0 {
		m.torn = true
	}
	var row Row
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
func (m *message) report() (*Error, error) {
	e := new(Error)
	for {
		field := m.byte()
		if field == 0 {
			return e, m.over()
		}
		text := m.text()
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
