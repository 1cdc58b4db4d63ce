package fenceproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence/httpfence"
)

// drip writes a byte again and again, until nobody takes it.
func drip(w io.Writer, flush func() error) {
	for {
		if _, err := w.Write([]byte("x")); err != nil || flush() != nil {
			return
		}
		time.Sleep(time.Second / 20)
	}
}

func noFlush() error { return nil }

// Hazard: the older run, or its service, never stands still and never ends, and keeps newer runs out for as long as it likes.
func TestFenceHTTPEndsWhoIsOvertaken(t *testing.T) {
	t.Parallel()
	header := fmt.Sprintf(" / HTTP/1.1\r\nHost: x\r\n%s: 5\r\n", httpfence.Header)
	whole := "PUT" + header + "Content-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		client  func(*net.TCPConn)
		service http.HandlerFunc
	}{
		"a client that sends bit by bit": {
			"PUT" + header + "Content-Length: 1000000\r\n\r\n", func(conn *net.TCPConn) { drip(conn, noFlush) },
			func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		},
		"a client that sends bit by bit, and is answered early": {
			"PUT" + header + "Content-Length: 1000000\r\n\r\n", func(conn *net.TCPConn) { drip(conn, noFlush) },
			func(w http.ResponseWriter, r *http.Request) {
				answer := http.NewResponseController(w)
				_ = errors.Join(answer.EnableFullDuplex(), answer.Flush())
				_, _ = io.Copy(io.Discard, r.Body)
			},
		},
		"a client that takes its answer bit by bit": {
			whole, func(conn *net.TCPConn) {
				buffer := make([]byte, 128<<10) // less than what the proxy writes at once would keep it waiting, and be noticed
				for {
					if _, err := io.ReadFull(conn, buffer); err != nil {
						return
					}
					time.Sleep(time.Second / 20)
				}
			},
			func(w http.ResponseWriter, _ *http.Request) {
				for range 1 << 14 {
					if _, err := w.Write(make([]byte, 32<<10)); err != nil {
						return
					}
				}
			},
		},
		"a service that answers bit by bit": {
			whole, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) },
			func(w http.ResponseWriter, _ *http.Request) { drip(w, http.NewResponseController(w).Flush) },
		},
		"a service that never gets to its answer": {
			whole, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) },
			func(w http.ResponseWriter, _ *http.Request) {
				if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
					defer conn.Close()
					for err == nil {
						_, err = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n")
						time.Sleep(time.Millisecond)
					}
				}
			},
		},
		"a WebSocket": {
			"GET" + header + "Connection: Upgrade\r\nUpgrade: x\r\n\r\n", func(conn *net.TCPConn) {
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				drip(conn, noFlush)
			},
			func(w http.ResponseWriter, _ *http.Request) {
				conn := switchProtocols(t, w)
				defer conn.Close()
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				drip(conn, noFlush)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came := make(chan struct{})
			p := newProxied(t, time.Second, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodHead {
					close(came)
					c.service(w, r)
				}
			})
			conn := send(t, p.address(), c.request)
			go c.client(conn)
			<-came
			mustRaise(t, p.raise(t, 6))
			p.expect(t, "PUT", "5", 409, "6")
		})
	}
}

// deadlines counts how often they are set.
type deadlines struct {
	http.ResponseWriter

	read, write int
}

func (d *deadlines) SetReadDeadline(time.Time) error  { d.read++; return nil }
func (d *deadlines) SetWriteDeadline(time.Time) error { d.write++; return nil }

// Hazard: the time of the older run is over between two reads of its request, or two writes of its answer, and the next one gives it
// as much again.
func TestFenceHTTPOvertakenBetweenTwoReads(t *testing.T) {
	t.Parallel()
	for _, at := range []stage{asking, awaited} {
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		p := &passage{
			patience: time.Hour, answer: http.NewResponseController(d), stage: at, unread: true, client: t.Context(),
			limit: time.NewTimer(time.Hour),
		}
		p.hurry()
		read, write := d.read, d.write
		if read != 1 || (write == 1) != (at == awaited) {
			t.Errorf("stage %d: it is not hurried: %d, %d", at, read, write)
		}
		p.listen()
		p.tell()
		if d.read != read || d.write != write {
			t.Errorf("stage %d: it has as much time again: %d, %d", at, d.read, d.write)
		}
	}
}

// A service that misbehaves takes neither memory nor the place of newer runs.
func TestFenceHTTPBadServices(t *testing.T) {
	kilobyte, letters := make([]byte, 1<<10), bytes.Repeat([]byte("x"), 1<<10)
	for name, answer := range map[string]func(io.Writer) error{
		"it goes on in another protocol that nobody asked for": func(w io.Writer) error {
			_, err := io.WriteString(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			for err == nil {
				_, err = w.Write(kilobyte)
			}
			return err
		},
		"one header never ends": func(w io.Writer) error {
			_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nX: ")
			for err == nil {
				_, err = w.Write(letters)
			}
			return err
		},
		"a trailer never ends": func(w io.Writer) error {
			_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1\r\nx\r\n0\r\nX: ")
			for err == nil {
				_, err = w.Write(letters)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						r, err := http.ReadRequest(bufio.NewReader(conn))
						if err == nil && r.Method == http.MethodHead {
							_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
						} else if err == nil {
							_ = answer(conn)
						}
					}()
				}
			}()
			server := httptest.NewServer(newProxy(&url.URL{Scheme: "http", Host: listener.Addr().String()}, time.Second))
			defer server.Close()
			p := &proxied{Server: server}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if response, err := p.request(t.Context(), "PUT", "5", "x"); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			mustRaise(t, p.raise(t, 6))
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 16 {
				t.Errorf("it took %d MB", used)
			}
		})
	}
}

// Hazard: a path leads to what is not below that of UPSTREAM.
func TestFenceHTTPKeepsPathsBelow(t *testing.T) {
	t.Parallel()
	for path, bad := range map[string]bool{
		"/": false, "/a/b": false, "/a..b/..c/d..": false, "/...": false, "/a/./b": false, "/%2e/a": false, "/a;b=../c": false, "/a%zz": false, "*": true,
		"/..": true, "/../a": true, "/a/../b": true, "/a/..": true, "/%2e%2e/a": true, "/.%2E/a": true, "/a%2f..%2fb": true,
		`/..\a`: true, "/a%5c..%5cb": true, "/..;/a": true, "/..;x=1/a": true, "/%252e%252e/a": true, "/..%20/a": true,
		"/..%00/a": true, "/..%3f": true, "/a/..%3fb": true, "/..%23/a": true, "/..%0a/a": true, "/%09../a": true, "/%20..;/a": true, "/a%00../b": false, "/a%3f..": false,
		"x:../a": true, "x:a": true, "http:..%2fa": true, "x:/a": false, "http://x/../a": true, "http://x/a": false,
		"/100%25": false, "/100%2525": false, "/%25252525a": false, "/%2525252525a": true,
	} {
		var came bool
		p := newProxied(t, time.Minute, func(http.ResponseWriter, *http.Request) { came = true })
		conn := send(t, p.address(), "HEAD "+path+" HTTP/1.1\r\nHost: x\r\n"+httpfence.Header+": 5\r\nConnection: close\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		response.Body.Close()
		invalid := path == "/a%zz"
		if got := response.StatusCode; !invalid && (came == bad || bad != (got == 400) || bad != (response.Header.Get(httpfence.Header) == "")) {
			t.Errorf("%s: %s, and the service was asked: %v", path, response.Status, came)
		}
	}
}

// Hazard: a request of some 100 kB, which anybody may send, takes minutes of a core.
func TestManyEncodingsAreRefused(t *testing.T) { // not parallel: it counts allocations
	path := "/%" + strings.Repeat("25", 10_000) + "41"
	passes := testing.AllocsPerRun(1, func() {
		if !climbs(path) {
			t.Error("it is passed on")
		}
	})
	if passes > 20 {
		t.Errorf("it is decoded %v times", passes)
	}
}

func FuzzClimbs(f *testing.F) {
	for _, path := range []string{"/", "/a/../b", "/%2e%2e/", `\..\`, "/..;a/b", "/%252e%252e", "/a..b", "/%zz/%2e%2e", "/..%2f"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI("/" + path)
		if err != nil || climbs(u.Path) {
			return
		}
		for _, read := range []string{u.Path, strings.ReplaceAll(u.Path, `\`, "/"), u.EscapedPath()} {
			if below, err := url.JoinPath("http://x/api/", read); err == nil && !strings.HasPrefix(below, "http://x/api") {
				t.Errorf("%q leads to %s", path, below)
			}
		}
	})
}
