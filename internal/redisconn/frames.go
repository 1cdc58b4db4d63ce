package redisconn

import (
	"errors"
	"fmt"
	"strings"
)

// What one reply may have. The largest that we ask for, a page of SCAN with a thousand keys, and what is kept about one job,
// are some 100 kB.
const (
	maxBytes    = 1 << 20 // with what its lengths announce
	maxElements = 100_000 // of all its aggregates, as announced; a pair of a map is two

	// The slots of a Cluster are one reply, and where each of the 16,384 is with another node than its neighbours it has
	// 390,000 elements. A line or string of it has no more than maxBytes.
	clusterBytes    = 8 << 20
	clusterElements = 400_000

	maxDepth    = 64   // aggregates within each other
	maxNumber   = 1000 // bytes of a number: that of a big one takes time
	maxStranger = 1000 // bytes of a line that is of no kind that we know
)

// ErrRefused is among the errors of a Read whose reply is beyond what is allowed. It says nothing about what was asked:
// that may have been done.
var ErrRefused = errors.New("no answer that can be read")

func refuse(why string, values ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(why, values...))
}

var (
	errTooLong  = refuse("a reply of more than %d bytes", maxBytes)
	errTooMany  = refuse("a reply of more than %d elements", maxElements)
	errTooDeep  = refuse("a reply of more than %d levels", maxDepth)
	errLength   = refuse("a length in a reply that makes no sense")
	errLine     = refuse("a line in a reply that does not end as one")
	errStranger = refuse("what follows is no reply of Redis")
)

// frames follows the framing of RESP2 and RESP3 as bytes come in, in constant memory: package-wide limits, whatever the
// chunks. The zero value stands before the first reply.
// https://redis.io/docs/latest/develop/reference/protocol-spec/
type frames struct {
	cluster bool // replies may be the slots of a Cluster

	at       place
	kind     byte // first byte of the line
	last     byte // previous byte of the line
	line     int  // bytes of the line
	number   int  // of a length
	digits   int
	negative bool
	payload  int // bytes of a string still to come

	size     int // of this reply so far, in bytes, with what is announced of its current string
	elements int // announced in this reply
	open     [maxDepth]int
	depth    int // of aggregates that lack elements: open[:depth] says how many
	err      error
}

// place is what comes next.
type place int

const (
	atKind    place = iota // the first byte of a line
	inLine                 // the rest of it
	inPayload              // a string
	atCR                   // the end of a string
	atLF
)

const (
	numbers    = ":,(#_"
	strung     = "$!=" // a length, and as many bytes
	aggregates = "*~>%|"
	known      = "+-" + numbers + strung + aggregates
)

// pass returns how many of the bytes may be handed over, and why not all. It is for good.
func (f *frames) pass(p []byte) (int, error) {
	for i := 0; i < len(p) && f.err == nil; {
		if f.at == inPayload {
			n := min(f.payload, len(p)-i)
			i += n
			f.payload -= n
			if f.payload == 0 {
				f.at = atCR
			}
			continue
		}
		if f.err = f.next(p[i]); f.err == nil {
			i++
			continue
		}
		if errors.Is(f.err, errStranger) { // its line is for the library, which says what it is
			i++
		}
		return i, f.err
	}
	if f.err != nil {
		return 0, f.err
	}
	return len(p), nil
}

// next takes one byte that is not in a string.
func (f *frames) next(b byte) error {
	switch f.at {
	case atCR, atLF:
		want, then := byte('\r'), atLF
		if f.at == atLF {
			want, then = '\n', atKind
		}
		if b != want {
			return errLine
		}
		f.at = then
		if then == atKind {
			f.complete()
		}
		return nil
	case atKind:
		f.at, f.kind, f.line, f.number, f.digits, f.negative = inLine, b, 0, 0, 0, false
	}
	f.line++
	f.size++
	switch {
	case f.size > f.mostBytes() || f.line > maxBytes:
		return errTooLong
	case f.strange() && f.line > maxStranger:
		return errStranger
	case f.line > maxNumber && f.of(numbers):
		return errTooLong
	case b == '\n':
		return f.endLine()
	case f.line > 1 && (f.of(strung) || f.of(aggregates)) && f.last != '\r':
		if err := f.digit(b); err != nil {
			return err
		}
	}
	f.last = b
	return nil
}

func (f *frames) of(kinds string) bool { return strings.IndexByte(kinds, f.kind) >= 0 }

func (f *frames) strange() bool { return !f.of(known) }

// digit takes a byte of a length.
func (f *frames) digit(b byte) error {
	switch {
	case b == '\r':
	case b == '-' && f.line == 2:
		f.negative = true
	case b < '0' || b > '9':
		return errLength
	case f.number > maxBytes: // no further: it is refused at the end of its line
		f.digits++
	default:
		f.number = 10*f.number + int(b-'0')
		f.digits++
	}
	return nil
}

// endLine takes the end of a line.
func (f *frames) endLine() error {
	switch {
	case f.strange():
		return errStranger
	case f.last != '\r' || f.line < 3:
		return errLine
	case f.of(strung):
		return f.announceString()
	case f.of(aggregates):
		return f.announceElements()
	}
	f.at = atKind
	f.complete()
	return nil
}

func (f *frames) mostBytes() int {
	if f.cluster {
		return clusterBytes
	}
	return maxBytes
}

func (f *frames) mostElements() int {
	if f.cluster {
		return clusterElements
	}
	return maxElements
}

// null says whether the length is that of RESP2's null.
func (f *frames) null() bool {
	return f.negative && f.digits == 1 && f.number == 1 && (f.kind == '$' || f.kind == '*')
}

func (f *frames) announceString() error {
	f.at = atKind
	switch {
	case f.null():
		f.complete()
		return nil
	case f.negative || f.digits == 0:
		return errLength
	case f.number > min(maxBytes, f.mostBytes()-f.size)-2:
		return errTooLong
	}
	f.size += f.number + 2
	f.payload, f.at = f.number, inPayload
	if f.payload == 0 {
		f.at = atCR
	}
	return nil
}

func (f *frames) announceElements() error {
	f.at = atKind
	n, least := f.number, 0
	switch {
	case f.null():
		f.complete()
		return nil
	case f.negative || f.digits == 0:
		return errLength
	case f.kind == '%':
		n, least = 2*n, 16 // a map has room for eight pairs from the first one on
	case f.kind == '|':
		n = 2*n + 1 // with the value that it is about: one attribute after another is depth to the library
	}
	switch {
	case max(n, least) > f.mostElements()-f.elements:
		return errTooMany
	case f.depth == maxDepth:
		return errTooDeep
	}
	f.elements += max(n, least)
	if n == 0 {
		f.complete()
		return nil
	}
	f.open[f.depth] = n
	f.depth++
	return nil
}

// complete ends a value, and all that it was the last element of.
func (f *frames) complete() {
	for f.depth > 0 {
		f.open[f.depth-1]--
		if f.open[f.depth-1] > 0 {
			return
		}
		f.depth--
	}
	f.size, f.elements = 0, 0
}
