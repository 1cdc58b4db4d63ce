package wire

import (
	"encoding/binary"
	"fmt"
)

// encoder writes jute, value after value: big-endian numbers, and lengths before what has one. A message on its way is a buffer,
// too.
type encoder []byte

func (e encoder) int32(v int32) encoder {
	return binary.BigEndian.AppendUint32(e, uint32(v)) //nolint:gosec // the same bits
}

func (e encoder) int64(v int64) encoder {
	return binary.BigEndian.AppendUint64(e, uint64(v)) //nolint:gosec // the same bits
}

func (e encoder) bool(v bool) encoder {
	if v {
		return append(e, 1)
	}
	return append(e, 0)
}

func (e encoder) buffer(v []byte) encoder {
	return append(e.int32(int32(len(v))), v...) //nolint:gosec // records are short
}

func (e encoder) string(v string) encoder { return e.buffer([]byte(v)) }

// decoder reads jute. After its first error it reads zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &ProtocolError{What: fmt.Sprintf(format, args...)}
	}
	d.b = nil
}

// take returns the next n bytes, or zeros for a number.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail("%d bytes where %d are left", n, len(d.b))
		return make([]byte, 8)
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int32() int32 {
	return int32(binary.BigEndian.Uint32(d.take(4))) //nolint:gosec // the same bits
}

func (d *decoder) int64() int64 {
	return int64(binary.BigEndian.Uint64(d.take(8))) //nolint:gosec // the same bits
}

func (d *decoder) bool() bool { return d.take(1)[0] != 0 }

// buffer reads bytes; a length of -1 is none.
func (d *decoder) buffer() []byte {
	n := int(d.int32())
	switch {
	case n == -1 || d.err != nil:
		return nil
	case n < 0 || n > len(d.b):
		d.fail("a length of %d where %d bytes are left", n, len(d.b))
		return nil
	}
	return d.take(n)
}

func (d *decoder) string() string { return string(d.buffer()) }

// maxItems is how long a list may be: an item takes more memory than bytes on its way.
const maxItems = 100_000

// count reads the length of a list whose items have at least so many bytes each.
func (d *decoder) count(least int) int {
	n := int(d.int32())
	switch {
	case n == -1:
		return 0
	case n < 0 || n > len(d.b)/least || n > maxItems:
		d.fail("a list of %d items where %d bytes are left", n, len(d.b))
		return 0
	}
	return n
}

func (d *decoder) stat() Stat {
	var s Stat
	s.Czxid, s.Mzxid = d.int64(), d.int64()
	_, _ = d.int64(), d.int64() // ctime and mtime, by the clock of the server that led
	s.Version = d.int32()
	_, _ = d.int32(), d.int32() // cversion, aversion
	s.EphemeralOwner = d.int64()
	s.DataLength = d.int32()
	_, _ = d.int32(), d.int64() // the number of its children, and pzxid
	return s
}
