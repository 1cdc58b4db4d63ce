package rpc

import (
	"encoding/binary"
	"errors"
)

// The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding): a message is a
// sequence of fields, each a key with its number and kind, and a value.
const (
	kindVarint  = 0
	kindFixed64 = 1
	kindBytes   = 2
	kindFixed32 = 5
)

var (
	errMalformed = errors.New("malformed message")
	errTooMany   = errors.New("message with more elements than any that is expected")
)

// How many elements a list in a message may have. Two bytes make one that needs fifty times as many in memory.
const (
	mostElements = 4096 // of what is asked for by pages of 1,000, or comes as one change
	mostAnswers  = 16   // of a transaction's operations, each of which may have elements
)

// encoder builds a message, field after field. Like every writer of proto3 it leaves out what is zero, unless it is a member
// of a oneof, where being there says which member is meant.
type encoder []byte

func (e encoder) key(field, kind uint64) encoder { return binary.AppendUvarint(e, field<<3|kind) }

func (e encoder) member(field uint64, v int64) encoder {
	return binary.AppendUvarint(e.key(field, kindVarint), uint64(v)) //nolint:gosec // a negative number is sent in two's complement
}

func (e encoder) int(field uint64, v int64) encoder {
	if v == 0 {
		return e
	}
	return e.member(field, v)
}

func (e encoder) bool(field uint64, v bool) encoder {
	if !v {
		return e
	}
	return e.member(field, 1)
}

func (e encoder) message(field uint64, m []byte) encoder {
	return append(binary.AppendUvarint(e.key(field, kindBytes), uint64(len(m))), m...)
}

func (e encoder) bytes(field uint64, v []byte) encoder {
	if len(v) == 0 {
		return e
	}
	return e.message(field, v)
}

// value is one field of a message that was read: a number, or bytes that share the memory of the message.
type value struct {
	kind  uint64
	n     uint64
	bytes []byte
}

// field takes one field of a message. It refuses one of another kind than its own.
type field func(v value) error

// decode gives each field of a message to the one of its number, in their order. What has none is ignored: a newer server may
// send more. Groups have been gone since proto3 and are malformed.
func decode(b []byte, fields []field) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 || key>>3 >= 1<<29 {
			return errMalformed
		}
		b = b[n:]
		v := value{kind: key & 7}
		var size int
		switch v.kind {
		case kindVarint:
			v.n, size = binary.Uvarint(b)
			if size <= 0 {
				return errMalformed
			}
		case kindBytes:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return errMalformed
			}
			size = n + int(length) //nolint:gosec // not longer than b
			v.bytes = b[n:size:size]
		case kindFixed64:
			size = 8
		case kindFixed32:
			size = 4
		default:
			return errMalformed
		}
		if size > len(b) {
			return errMalformed
		}
		b = b[size:]
		if at := key >> 3; at < uint64(len(fields)) && fields[at] != nil {
			if err := fields[at](v); err != nil {
				return err
			}
		}
	}
	return nil
}

func integer[N int64 | uint64](to *N) field {
	return func(v value) error {
		if v.kind != kindVarint {
			return errMalformed
		}
		*to = N(v.n)
		return nil
	}
}

func flag(to *bool) field {
	return func(v value) error {
		var n int64
		err := integer(&n)(v)
		*to = n != 0
		return err
	}
}

// message reads a message inside a message. A field that comes twice is merged, as the format has it.
func message(read func([]byte) error) field {
	return func(v value) error {
		if v.kind != kindBytes {
			return errMalformed
		}
		return read(v.bytes)
	}
}

// text is bytes, which share the memory of the message, or a string.
func text[B []byte | string](to *B) field {
	return message(func(b []byte) error { return set(to, b) })
}

func set[B []byte | string](to *B, b []byte) error {
	*to = B(b)
	return nil
}

// list is a field that comes once for each element.
func list[T any](all *[]T, most int, read func(element *T, b []byte) error) field {
	return message(func(b []byte) error {
		if len(*all) >= most {
			return errTooMany
		}
		*all = append(*all, *new(T))
		return read(&(*all)[len(*all)-1], b)
	})
}
