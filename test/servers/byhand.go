package servers

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// ByHand is a server that does the same on each connection, at the same time on several. It says no more when answer has
// returned, and closes a connection when its client has. down makes it refuse connections, as the end of the test does.
func ByHand(t testing.TB, answer func(conn net.Conn)) (addr string, down func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down = func() { _ = l.Close() }
	t.Cleanup(down)
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() {
				defer func() { _ = conn.Close() }()
				answer(conn)
				if half, ok := conn.(*net.TCPConn); ok {
					_ = half.CloseWrite()
				}
				_, _ = io.Copy(io.Discard, conn) // what is not read would reset the connection
			}()
		}
	}()
	return l.Addr().String(), down
}

// Shaking is a server ByHand that shakes hands over TLS, and says nothing.
func Shaking(t testing.TB, config *tls.Config) (addr string, down func()) {
	t.Helper()
	return ByHand(t, func(conn net.Conn) { _ = tls.Server(conn, config).HandshakeContext(t.Context()) })
}
