package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	// A connection that takes longer than this to open, with TLS, is not waited for.
	dialTimeout = 10 * time.Second

	// A connection on which nothing has come for pingAfter, while a request is open, is asked for a sign of
	// life, and is closed when none has come after pingTimeout. An etcd closes connections that ask more often
	// than every 5 s (embed.DefaultGRPCKeepAliveMinTime), or at all while no request is open: such a connection
	// is closed by us before the first ping is due.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	idleTimeout = pingAfter - time.Second

	// What is kept of answers that nobody reads yet: of one, and of all on a connection.
	unreadAnswer  = 512 << 10
	unreadAnswers = 2 << 20
	longestFrame  = 64 << 10

	// writeTimeout ends a connection that takes nothing more.
	writeTimeout = 5 * time.Second

	// lastWords is how long TLS may take for what comes after the end of a connection.
	lastWords = 250 * time.Millisecond
)

// The first frame of a server is of type SETTINGS, which is said by one byte (RFC 9113, sections 3.4, 4.1 and 6.5).
const (
	typeAt   = 3
	settings = 4
)

var errClosed = errors.New("the client is closed")

// connection is one connection to a member. net/http's Transport would choose the connection, open more of them,
// and send a request a second time that the server had not accepted; its ClientConn is one connection that
// sends what it is given, once.
type connection struct {
	*http.ClientConn
	socket *socket

	// Of the member's mutex.
	users    int  // requests on the way
	retired  bool // takes no more
	timeouts int  // in a row, without an answer to any request
}

// newConnection makes an HTTP/2 connection of a socket. TLS, if any, is below it and done: that way its errors stay
// what they are.
func newConnection(ctx context.Context, s *socket) (*connection, error) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return s, nil },
		Protocols:              protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: httplimit.MostHeader,
		IdleConnTimeout:        idleTimeout,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout,
			MaxReceiveBufferPerStream: unreadAnswer, MaxReceiveBufferPerConnection: unreadAnswers, MaxReadFrameSize: longestFrame,
		},
	}
	conn, err := t.NewClientConn(ctx, "http", s.RemoteAddr().String())
	if err != nil {
		_ = s.Close()
		return nil, s.reason(err)
	}
	return &connection{ClientConn: conn, socket: s}, nil
}

// socket is what a connection reads and writes. It keeps the error that ended reading: net/http tells it only to
// requests that were on their way then, and a server that refuses a certificate does so after the handshake.
type socket struct {
	net.Conn
	raw net.Conn // below TLS

	mu      sync.Mutex
	err     error
	drained bool // by Write: what is read now has gaps
	got     int  // bytes that were read, until the first frame has shown its type
}

// dial opens a connection.
func dial(ctx context.Context, addr string, config *tls.Config) (*socket, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return &socket{Conn: raw, raw: raw}, nil
	}
	conn, err := backendurl.StartTLS(ctx, raw, config, addr, "h2")
	switch {
	case err != nil:
		err = backendurl.Opening(err, true, "etcd")
	case conn.ConnectionState().NegotiatedProtocol != "h2":
		err = &ProtocolError{What: "the server does not speak HTTP/2 over TLS"}
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return &socket{Conn: conn, raw: raw}, nil
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.read(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		return 0, io.ErrUnexpectedEOF
	}
	if s.got <= typeAt {
		if err := s.begin(b[:n], err); err != nil {
			return 0, err
		}
	}
	return n, err
}

// begin looks at what a server says first, whether it is one, and says what else it may be. The mutex is held.
func (s *socket) begin(b []byte, err error) error {
	at := typeAt - s.got
	s.got += len(b)
	switch {
	case at < len(b) && b[at] != settings:
		s.err = &ProtocolError{What: "what answers does not speak HTTP/2"}
		return s.err
	case s.got == 0 && s.err != nil && s.raw == s.Conn:
		s.err = backendurl.Opening(s.err, false, "etcd")
	}
	return err
}

func (s *socket) read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

// Write looks for the reason where TLS cannot write: a server that refuses our certificate says so and hangs up,
// and that we cannot write is sometimes seen first. What else is read then is lost, and the connection with it.
func (s *socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	if err != nil && s.raw != s.Conn && s.raw.SetReadDeadline(time.Now().Add(lastWords)) == nil {
		s.mu.Lock()
		s.drained = true
		s.mu.Unlock()
		for b := make([]byte, 1024); ; {
			if _, errRead := s.read(b); errRead != nil {
				break
			}
		}
		_ = s.raw.Close()
	}
	return n, err
}

// Close closes at once: TLS says goodbye first, which can take seconds where nobody reads.
func (s *socket) Close() error {
	if s.raw != s.Conn {
		defer time.AfterFunc(lastWords, func() { _ = s.raw.Close() }).Stop()
	}
	return s.Conn.Close()
}

// reason puts the error that ended reading, if there was one, in the place of what followed from it.
func (s *socket) reason(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("connection lost: %w", s.err)
	}
	return err
}
