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

// encoder builds a message. Like every writer of proto3 it leaves out what is zero, unless it is a member of
// a oneof, where being there says which member is meant.
type encoder []byte

func (e *encoder) key(field, kind uint64) { *e = binary.AppendUvarint(*e, field<<3|kind) }

func (e *encoder) int(field uint64, v int64) {
	if v != 0 {
		e.member(field, v)
	}
}

func (e *encoder) member(field uint64, v int64) {
	e.key(field, kindVarint)
	*e = binary.AppendUvarint(*e, uint64(v)) //nolint:gosec // a negative number is sent in two's complement
}

func (e *encoder) bool(field uint64, v bool) {
	if v {
		e.member(field, 1)
	}
}

func (e *encoder) bytes(field uint64, v []byte) {
	if len(v) > 0 {
		e.message(field, v)
	}
}

func (e *encoder) message(field uint64, m []byte) {
	e.key(field, kindBytes)
	*e = binary.AppendUvarint(*e, uint64(len(m)))
	*e = append(*e, m...)
}

// value is one field of a message that was read: a number, or bytes that share the memory of the message.
type value struct {
	kind  uint64
	n     uint64
	bytes []byte
}

// decode calls f for every field of a message whose value is a number or bytes, in their order. A field that
// f does not know it ignores: a newer server may send more. f takes fields through number and data, which
// check the kind. Groups have been gone since proto3 and are malformed.
func decode(b []byte, f func(field uint64, v value) error) error {
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
		if err := f(key>>3, v); err != nil {
			return err
		}
	}
	return nil
}

func (v value) uint64(to *uint64) error {
	if v.kind != kindVarint {
		return errMalformed
	}
	*to = v.n
	return nil
}

func (v value) int64(to *int64) error {
	var n uint64
	err := v.uint64(&n)
	*to = int64(n) //nolint:gosec // two's complement
	return err
}

func (v value) bool(to *bool) error {
	var n uint64
	err := v.uint64(&n)
	*to = n != 0
	return err
}

func (v value) data(to *[]byte) error {
	if v.kind != kindBytes {
		return errMalformed
	}
	*to = v.bytes
	return nil
}

func (v value) string(to *string) error {
	var b []byte
	err := v.data(&b)
	*to = string(b)
	return err
}

// message reads a message inside a message. A field that comes twice is merged, as the format has it.
func (v value) message(read func([]byte) error) error {
	if v.kind != kindBytes {
		return errMalformed
	}
	return read(v.bytes)
}

// another makes room for one more element of a list.
func another[T any](list *[]T, most int) (*T, error) {
	if len(*list) >= most {
		return nil, errTooMany
	}
	*list = append(*list, *new(T))
	return &(*list)[len(*list)-1], nil
}
