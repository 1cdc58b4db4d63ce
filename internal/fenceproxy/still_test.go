package fenceproxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// switchProtocols makes the connection of a request one in both directions.
func switchProtocols(t *testing.T, w http.ResponseWriter) *net.TCPConn {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	plain, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		t.Fatal(err, conn)
	}
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	return plain
}

// send writes a request to a connection of its own, of which nothing is read.
func send(t *testing.T, address, request string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, request)
	plain, _ := conn.(*net.TCPConn)
	return plain
}

// dialUpgrade opens a connection in both directions.
func dialUpgrade(t *testing.T, address string, token int64) *net.TCPConn {
	t.Helper()
	conn := send(t, address, fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\n%s: %d\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", httpfence.Header, token))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := response.Header.Get(httpfence.Header); response.StatusCode != http.StatusSwitchingProtocols || got != fmt.Sprint(token) {
		t.Fatal(response.Status, got)
	}
	return conn
}

// address is where the proxy listens.
func (p *proxied) address() string { return p.Listener.Addr().String() }

// mustRaise waits until a newer run has been let in.
func mustRaise(t *testing.T, raised <-chan error) {
	t.Helper()
	select {
	case err := <-raised:
		if err != nil {
			t.Errorf("the newer run: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the newer run is kept out for ever")
	}
}

// Hazard: the older run is killed in the middle of what it sends, and the service goes on with what it has got while the newer run
// reads.
func TestFenceHTTPHoldsWhatIsBrokenOff(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			t.Parallel()
			s := newWriting()
			p := newProxiedBy(t, time.Hour, secure, s.handler(t, func(_ http.ResponseWriter, r *http.Request) {
				rows := bufio.NewReaderSize(r.Body, 16)
				_, _ = rows.ReadString('\n')
				close(s.came)
				<-s.release
				if _, err := io.Copy(io.Discard, rows); err == nil { // the end comes while the connection is whole
					t.Error("the service takes the request for a whole one")
				}
				if secure {
					panic(http.ErrAbortHandler) // it closes the connection without an answer, and that is an end, too
				}
			}))
			conn := send(t, p.address(), fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\n%s: 5\r\nContent-Length: 1000000\r\n\r\n%s",
				httpfence.Header, strings.Repeat("a row\n", 1000)))
			<-s.came
			_ = conn.Close()
			if token := <-p.gone; token != "5" {
				t.Fatalf("%q went away", token)
			}
			s.holds(t, p)
		})
	}
}

// Hazard: the older run is killed, and the service goes on with what came through its WebSocket.
func TestFenceHTTPHoldsWebSockets(t *testing.T) {
	t.Parallel()
	for _, reset := range []bool{false, true} { // as when something for the client was unread
		t.Run(fmt.Sprintf("reset %v", reset), func(t *testing.T) {
			t.Parallel()
			s := newWriting()
			p := newProxied(t, time.Hour, s.handler(t, func(w http.ResponseWriter, _ *http.Request) {
				conn := switchProtocols(t, w)
				defer conn.Close()
				defer s.busy.Store(false) // before the end of the connection tells that it has written
				messages := bufio.NewReader(conn)
				_, _ = messages.ReadString('\n')
				close(s.came)
				<-s.release
				_, _ = io.Copy(conn, messages)
			}))
			conn := dialUpgrade(t, p.address(), 5)
			fmt.Fprint(conn, strings.Repeat("do\n", 200))
			<-s.came
			if reset {
				_ = conn.SetLinger(0)
			}
			_ = conn.Close()
			s.holds(t, p)
		})
	}
}

// A run that is stopped, and not killed, does not keep newer ones out for ever.
func TestFenceHTTPGivesUpWhoStandsStill(t *testing.T) {
	t.Parallel()
	begin := fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\n%s: 5\r\nContent-Length: 1000\r\n\r\n", httpfence.Header)
	upgrade := fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\n%s: 5\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", httpfence.Header)
	talks := func(w http.ResponseWriter, _ *http.Request) {
		conn := switchProtocols(t, w)
		defer conn.Close()
		_, _ = conn.Write(make([]byte, 64<<20))
	}
	early := func(w http.ResponseWriter, r *http.Request) {
		answer := http.NewResponseController(w)
		_ = errors.Join(answer.EnableFullDuplex(), answer.Flush())
		_, _ = io.Copy(io.Discard, r.Body)
	}
	for name, c := range map[string]struct {
		request string
		service http.HandlerFunc
	}{
		"in its request":                          {begin + "half", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"in its request, and is answered early":   {begin + "half", early},
		"in an answer that is too much for pipes": {begin + strings.Repeat("x", 1000), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<20)) }},
		"in a WebSocket":                          {upgrade, talks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			p := newProxied(t, short, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodHead {
					defer close(ended)
					c.service(w, r)
				}
			})
			send(t, p.address(), c.request)
			select {
			case <-ended: // also where nobody waits for it
			case <-time.After(patience):
				t.Fatal("the service is kept for ever")
			}
			mustRaise(t, p.raise(t, 6))
			p.expect(t, "PUT", "5", 409, "6")
		})
	}
}

// A service may begin to answer before it has all of a request.
func TestFenceHTTPTalksBothWays(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	p := newProxied(t, patience, func(w http.ResponseWriter, r *http.Request) {
		answer := http.NewResponseController(w)
		if err := answer.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		_ = answer.Flush()
		body, err := io.ReadAll(r.Body)
		got <- fmt.Sprint(string(body), err)
	})
	conn := send(t, p.address(), fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\n%s: 5\r\nContent-Length: 12\r\n\r\nfirst ", httpfence.Header))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Fprint(conn, "second")
	if body := <-got; body != "first second<nil>" {
		t.Errorf("the service got %s", body)
	}
}

// What a client sends may take longer than the service may, as long as it goes on.
func TestFenceHTTPLetsSlowClientsSend(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	p := newProxied(t, short, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	read, write := io.Pipe()
	go func() {
		const pieces = 30
		for range pieces {
			fmt.Fprintln(write, "a row")
			time.Sleep(short / 20)
		}
		write.Close()
	}()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, p.URL, read)
	r.Header.Set(httpfence.Header, "5")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}

// Hazard: the connection breaks while the service works on a request, and the proxy sends it again.
func TestFenceHTTPSendsOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		var times atomic.Int64
		p := newProxied(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				return
			}
			if r.Header.Get(name) != "job/tick" || r.ContentLength != 0 {
				t.Errorf("the service sees %v, and %d bytes", r.Header, r.ContentLength)
			}
			times.Add(1)
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
		})
		p.expect(t, "GET", "5", 200, "5") // from now on there is a connection
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL, http.NoBody)
		r.Header.Set(httpfence.Header, "5")
		r.Header.Set(name, "job/tick")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusBadGateway || times.Load() != 1 {
			t.Errorf("%s: %s, and it was sent %d times", name, response.Status, times.Load())
		}
	}
}

// Hazard: a redirect leads a stale run around the fence.
func TestFenceHTTPKeepsClientsInside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ upstream, location, want string }{
		{"http://localhost:9000", "http://localhost:9000/a%2Fb?c=1#d%20e", "/a%2Fb?c=1#d%20e"},
		{"http://localhost:9000", "HTTP://LOCALHOST:9000", "/"},
		{"http://localhost:9000", "//localhost:9000//a", "/a"},
		{"http://localhost", "http://localhost:80/a", "/a"},
		{"https://localhost", "https://localhost:443/a?", "/a?"},
		{"http://localhost:9000/api/", "http://localhost:9000/api/a", "/a"},
		{"http://localhost:9000/api", "http://localhost:9000/api", "/"},
		{"http://localhost:9000/api", "http://localhost:9000/apical", "http://localhost:9000/apical"},
		{"http://localhost:9000", "http://elsewhere:9000/a", "http://elsewhere:9000/a"},
		{"http://localhost:9000", "/a", "/a"},
		{"http://localhost:9000", "http://%zz", "http://%zz"},
	} {
		upstream, err := ParseUpstream(c.upstream)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&forwarder{upstream: upstream}).outside(c.location); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.location, c.upstream, got, c.want)
		}
	}
	var upstream atomic.Value
	p := newProxied(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		upstream.Store(local.String())
		w.Header().Set("Location", "http://"+local.String()+"/next")
		if r.URL.Path != "/next" {
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
		fmt.Fprint(w, r.Host)
	})
	response, err := http.Get(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if host := string(body); host != p.address() || response.Request.URL.Host != host || response.Request.URL.Path != "/next" {
		t.Errorf("the service at %v sees the host %s, and the client has come to %v", upstream.Load(), host, response.Request.URL)
	}
}

// trusting makes a proxy believe in the certificate of a test's service.
func trusting(f *forwarder) {
	transport, _ := f.proxy.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it is the test's own
}
