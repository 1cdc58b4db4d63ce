package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// maxMessage is the longest message that is read, in bytes. An etcd takes requests of 1.5 MiB by default
// (embed.DefaultMaxRequestBytes), so that a value cannot be longer.
const maxMessage = httplimit.MostBytes

// prefix is how long the head of a message is: a byte that says whether it is compressed, and its length.
const prefix = 5

// stream is one request on its way, framed as gRPC has it
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
type stream struct {
	member *member
	conn   *connection
	method string
	reply  *http.Response
	ctx    context.Context
	cancel context.CancelFunc
	place  httplimit.Place // of the last message
	stands bool            // an answer has come, and more may come at any time
}

// request is what is sent to a member.
type request struct {
	method  string // SERVICE/METHOD
	message encoder
	token   string // "": none
	open    bool   // more could follow; ends with the context
}

// send sends a request. The stream that it returns must be ended.
func (m *member) send(ctx context.Context, r request) (*stream, error) {
	c, err := m.acquire(ctx)
	if err != nil {
		return nil, m.failure(r.method, err)
	}
	header := http.Header{
		"Content-Type": {"application/grpc"},
		"Te":           {"trailers"},
		"User-Agent":   {"leaderrun"},
		// A member without a leader cannot serve: it refuses at once and ends streams, instead of keeping us
		// waiting (rpctypes.MetadataRequireLeaderKey).
		"Hasleader": {"true"},
	}
	if r.token != "" {
		header["Token"] = []string{r.token} // rpctypes.TokenFieldNameGRPC
	}
	if d, limited := ctx.Deadline(); limited && !r.open {
		header["Grpc-Timeout"] = []string{timeout(time.Until(d))}
	}
	framed := make([]byte, prefix, prefix+len(r.message))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(r.message))) //nolint:gosec // etcd takes a few MiB
	framed = append(framed, r.message...)

	// Without GetBody nothing could send the body a second time. ClientConn would not try either.
	ctx, cancel := context.WithCancel(ctx)
	req := (&http.Request{
		Method: http.MethodPost, Header: header,
		URL: &url.URL{Scheme: m.scheme(), Host: m.addr, Path: "/etcdserverpb." + r.method},
	}).WithContext(ctx)
	if r.open {
		req.Body, req.ContentLength = openBody(ctx, framed), -1
	} else {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(framed)), int64(len(framed))
	}
	s := &stream{member: m, conn: c, method: r.method, ctx: ctx, cancel: cancel}
	if s.reply, err = c.RoundTrip(req); err != nil { //nolint:bodyclose // end closes it
		return nil, s.end(err)
	}
	if kind := s.reply.Header.Get("Content-Type"); s.reply.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "application/grpc") {
		return nil, s.end(notGRPC(s.reply.StatusCode, kind))
	}
	return s, nil
}

// notGRPC is the error for a page. One that reports a failure may be that of a load balancer that knows no member now: it passes.
func notGRPC(status int, kind string) error {
	if status != http.StatusOK {
		return fmt.Errorf("not gRPC: HTTP status %d, %s: is this an etcd server?", status, httplimit.Brief(kind))
	}
	return &ProtocolError{What: "not gRPC: " + httplimit.Brief(kind)}
}

// next returns the next message, io.EOF at the end of a stream that the server ended well, and an *Error if
// it ended it otherwise.
func (s *stream) next() ([]byte, error) {
	var head [prefix]byte
	if _, err := io.ReadFull(s.reply.Body, head[:]); errors.Is(err, io.EOF) {
		return nil, s.status()
	} else if err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	switch {
	case head[0] != 0:
		return nil, errors.New("compressed message, which was not asked for")
	case length > maxMessage:
		return nil, fmt.Errorf("message of %d bytes, more than %d", length, maxMessage)
	}
	if err := s.place.Take(s.ctx, int(length)); err != nil {
		return nil, err
	}
	// The buffer grows with what has come, so that a wrong length costs nothing.
	message, err := io.ReadAll(io.LimitReader(s.reply.Body, length))
	if err == nil && int64(len(message)) < length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	s.member.answered(s.conn)
	return message, nil
}

// status reads what the server says at the end: in the trailers, or in the headers of an answer that has
// nothing else.
func (s *stream) status() error {
	from := s.reply.Trailer
	if from.Get("Grpc-Status") == "" {
		from = s.reply.Header
	}
	code, err := strconv.ParseUint(from.Get("Grpc-Status"), 10, 31)
	if err != nil {
		return fmt.Errorf("no status of gRPC: %w", io.ErrUnexpectedEOF)
	}
	if Code(code) == ok {
		return io.EOF
	}
	return &Error{Code: Code(code), Message: httplimit.Brief(unescape(from.Get("Grpc-Message")))}
}

// end gives the connection back. It returns err with what is known about it.
func (s *stream) end(err error) error {
	lost := err
	if _, status := errors.AsType[*Error](err); status || err == nil {
		lost = nil
	} else {
		err = s.conn.socket.reason(err)
	}
	switch {
	case lost == nil:
		s.member.answered(s.conn)
	case s.stands && errors.Is(lost, context.DeadlineExceeded):
		lost = context.Canceled // nothing was due
	}
	s.cancel()
	s.place.Leave()
	if s.reply != nil {
		_ = s.reply.Body.Close()
	}
	s.member.release(s.conn, lost)
	return s.member.failure(s.method, err)
}

// failure says where and what failed; errors.As still finds a status.
func (m *member) failure(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", m.addr, method, err)
}

func (m *member) scheme() string {
	if m.config != nil {
		return "https"
	}
	return "http"
}

// timeout is the value of grpc-timeout in milliseconds, which may have eight digits.
func timeout(d time.Duration) string {
	const most = 99_999_999
	return strconv.FormatInt(min(max(d.Milliseconds(), 1), most), 10) + "m"
}

// unescape decodes a grpc-message: bytes that are not printable come as % and two hexadecimal digits. One that is not well
// formed stays as it is.
func unescape(s string) string {
	text, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return text
}

// openBody is a request that does not end until its stream or its context does. net/http does not look at the context while
// it reads a body, and closes the body when the stream ends, however it does.
func openBody(ctx context.Context, begin []byte) io.ReadCloser {
	rest, end := io.Pipe()
	context.AfterFunc(ctx, func() { _ = end.CloseWithError(ctx.Err()) })
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), rest), rest}
}
