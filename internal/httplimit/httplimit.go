// Package httplimit bounds what an answer of a server can cost its client: the time to read it, and the memory for it and for what is
// made of it.
//
// An answer may have a limited number of bytes and, if it is JSON, of values, because the memory for an object or a list depends more
// on the number of its values than on its length. So no answer needs more than about 16 MB. Only a few answers of more than a few
// kilobytes are in memory at the same time, however many requests a process makes: the others wait for a place, until their context
// ends.
package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// What an answer may have. The longest that a store keeps for us is a record of some kilobytes; the longest that it may keep
// for others is a value of 1.5 MB, in etcd.
const (
	MostBytes  = 2 << 20  // of an answer, or of one message of an answer that consists of them
	MostValues = 50_000   // in JSON: values and names; in other formats: fields
	MostDepth  = 64       // of JSON
	MostHeader = 32 << 10 // bytes of all headers of an answer, those of interim answers (1xx) included

	mostToken = 64   // bytes of a number or literal in JSON: errors repeat them
	mostText  = 1000 // bytes of an error's text

	small = 16 << 10 // bytes of an answer that needs no place
	large = 8        // answers that are longer and are in memory at the same time, and as many messages of watches
)

var (
	// ErrTooLarge says that an answer is larger than any that is expected.
	ErrTooLarge = errors.New("the answer is larger than any that is expected")
	// ErrSwitched says that the server has changed the protocol of a connection without being asked.
	ErrSwitched = errors.New("the server has switched protocols (101), for which nobody has asked")
)

// Transport is an *http.Transport for servers that nobody vouches for. The body of each answer is a *Body, and ends with the
// context of its request.
type Transport struct{ *http.Transport }

// New bounds a transport, which is not to be used otherwise from then on. It speaks HTTP/1.1, in which a request has its
// connection for itself, unpacks nothing, and takes short headers only.
func New(t *http.Transport) *Transport {
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.DisableCompression = true // a few bytes would become many
	t.MaxResponseHeaderBytes = MostHeader
	return &Transport{t}
}

// RoundTrip implements http.RoundTripper. An answer that switches protocols is ErrSwitched: net/http gives such a connection
// away, so that reading from it would not end with the context.
func (t *Transport) RoundTrip(q *http.Request) (*http.Response, error) {
	r, err := t.Transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		_ = r.Body.Close()
		return nil, ErrSwitched
	}
	r.Body = &Body{from: r.Body, ctx: q.Context()}
	return r, nil
}

// Body is the body of an answer. Its Read says ErrTooLarge where there is more than MostBytes. It is not safe for concurrent use.
type Body struct {
	from  io.ReadCloser
	ctx   context.Context
	read  int // bytes, of this message
	place Place
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if b.read > MostBytes {
		return 0, ErrTooLarge
	}
	if err := b.place.Take(b.ctx, b.read); err != nil {
		return 0, err
	}
	n, err := b.from.Read(p[:min(len(p), MostBytes+1-b.read)])
	b.read += n
	return n, err
}

// Next says that a message of the body is done with, and another one begins.
func (b *Body) Next() {
	b.read = 0
	b.place.Leave()
}

// Close implements io.Closer. What was made of the answer is no longer in use then, or small.
func (b *Body) Close() error {
	b.place.Leave()
	return b.from.Close()
}

// Weigh says ErrTooLarge of JSON that has more values, or is deeper, than MostValues and MostDepth, or has a number or literal
// that is no real one. It does not look whether it is JSON: what is not costs nothing to refuse.
func Weigh(text []byte) error {
	values, depth, token, quoted := 1, 0, 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if quoted {
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
			continue
		}
		token++
		switch c {
		case '"':
			quoted, token = true, 0
		case '[', '{':
			depth, values, token = depth+1, values+1, 0
		case ']', '}':
			depth, token = depth-1, 0
		case ',', ':':
			values, token = values+1, 0
		case ' ', '\t', '\r', '\n':
			token = 0
		}
		if values > MostValues || depth > MostDepth || token > mostToken {
			return ErrTooLarge
		}
	}
	return nil
}

// Places are taken by what is in memory and not small. Those of watches are others: a watch that breaks off in the middle of a
// message keeps its place until it ends, and a renewal cannot wait as long.
var (
	places  = make(chan struct{}, large)
	watches = make(chan struct{}, large)
)

type watching struct{}

// Watch marks the context of a request whose answer lasts: the messages of a watch have places of their own.
func Watch(ctx context.Context) context.Context {
	return context.WithValue(ctx, watching{}, true)
}

// Place is one of few for answers that are not small. The zero value has none. It is not safe for concurrent use.
type Place struct{ taken chan struct{} }

// Take takes a place for an answer of that many bytes, if it needs one and has none. It waits until there is one, or ctx ends.
func (p *Place) Take(ctx context.Context, bytes int) error {
	if p.taken != nil || bytes < small {
		return nil
	}
	of := places
	if ctx.Value(watching{}) != nil {
		of = watches
	}
	select {
	case of <- struct{}{}:
		p.taken = of
		return nil
	case <-ctx.Done():
		return fmt.Errorf("too many large answers at the same time: %w", context.Cause(ctx))
	}
}

// Leave gives the place back, if there is one.
func (p *Place) Leave() {
	if p.taken != nil {
		<-p.taken
		p.taken = nil
	}
}

// Brief cuts a text that is too long for people.
func Brief(text string) string {
	if len(text) <= mostText {
		return text
	}
	cut := mostText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.TrimSpace(text[:cut]) + "…"
}

// BriefError returns an error that has the text of another one, if that is not too long, or else its beginning, and is the
// other one for errors.Is and errors.As.
func BriefError(err error) error {
	if err == nil || len(err.Error()) <= mostText {
		return err
	}
	return &brief{text: Brief(err.Error()), err: err}
}

type brief struct {
	text string
	err  error
}

func (b *brief) Error() string { return b.text }
func (b *brief) Unwrap() error { return b.err }
