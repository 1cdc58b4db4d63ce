package fenceproxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// patience is how long a test waits for what must happen, on a machine that is busy with other tests.
var patience = waits.Patience

// aMoment is how long a test gives a fault to show. It decides nothing where there is none.
const aMoment = 100 * time.Millisecond

// short is an --upstream-timeout that a service keeps on a machine that stands still for five seconds, unless it means not to.
const short = 7 * time.Second

// newProxy makes a proxy that tells nobody.
func newProxy(upstream *url.URL, patience time.Duration) *Proxy {
	return New(Options{
		Resource: "service", Keep: new(httpfence.Memory), Upstream: upstream, Patience: patience, Log: slog.DiscardHandler,
		Tell: func(slog.Level, string, *http.Request, error, int64) {},
	})
}

// proxied is a service behind `fence http`, in this process.
type proxied struct {
	*httptest.Server

	gone chan string // tokens of requests whose client went away
}

func newProxied(t *testing.T, patience time.Duration, service http.HandlerFunc) *proxied {
	t.Helper()
	return newProxiedBy(t, patience, false, service)
}

func newProxiedBy(t *testing.T, patience time.Duration, secure bool, service http.HandlerFunc) *proxied {
	t.Helper()
	upstream := httptest.NewUnstartedServer(service)
	if secure {
		upstream.StartTLS()
	} else {
		upstream.Start()
	}
	t.Cleanup(upstream.Close)
	at, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := newProxy(at, patience)
	trusting(h.onward)
	p := &proxied{gone: make(chan string, 10)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer context.AfterFunc(r.Context(), func() {
			select {
			case p.gone <- r.Header.Get(httpfence.Header):
			default: // nobody asks
			}
		})()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		upstream.CloseClientConnections() // where a test has failed something may wait there
		closed, limit := make(chan struct{}), max(patience, time.Minute)
		if t.Failed() {
			limit = short
		}
		go func() {
			defer close(closed)
			p.Close()
		}()
		select {
		case <-closed:
		case <-time.After(limit):
			t.Error("the proxy waits for a request that does not end")
		}
	})
	return p
}

// request asks with a token; "": without one.
func (p *proxied) request(ctx context.Context, method, token, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.URL+"/path?a=1;b=%zz", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set(httpfence.Header, token)
	}
	return http.DefaultClient.Do(r)
}

// expect asks and wants this status, and the token in the answer.
func (p *proxied) expect(t *testing.T, method, token string, status int, highest string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	response, err := p.request(ctx, method, token, "")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := strings.Join(response.Header.Values(httpfence.Header), " and "); response.StatusCode != status || got != highest {
		t.Errorf("%s with token %s: %s and %q, want %d and %q", method, token, response.Status, got, status, highest)
	}
	if status == http.StatusGatewayTimeout && !response.Close {
		t.Error("the connection is kept, and is not read from any more")
	}
}

// raise begins to raise the fence and returns where the end is told.
func (p *proxied) raise(t *testing.T, token int64) <-chan error {
	t.Helper()
	over := make(chan error, 1)
	go func() {
		_, err := httpfence.NewResource(nil, p.URL).Raise(t.Context(), fence.Run{Token: token})
		over <- err
	}()
	return over
}

// writing is a service that is in the middle of what the older run asked it to write.
type writing struct {
	busy          atomic.Bool
	came, release chan struct{} // the write has begun; it may end
	newer         chan struct{} // a newer run is let in
}

func newWriting() *writing {
	return &writing{came: make(chan struct{}), release: make(chan struct{}), newer: make(chan struct{})}
}

func (s *writing) handler(t *testing.T, write http.HandlerFunc) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			if s.busy.Load() {
				t.Error("the newer run is let in, and the service still writes")
			}
			close(s.newer)
			return
		}
		s.busy.Store(true)
		defer s.busy.Store(false)
		write(w, r)
	}
}

// holds wants the newer run to be let in once the write has ended, and not before.
func (s *writing) holds(t *testing.T, p *proxied) {
	t.Helper()
	raised := p.raise(t, 6)
	select {
	case <-s.newer:
	case <-time.After(aMoment):
	}
	close(s.release)
	mustRaise(t, raised)
}

// Hazard: the older run is killed, its connection breaks, and the service goes on with its write while the newer run reads.
func TestFenceHTTPHoldsWhatIsDeserted(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("the service answers before it has done it %v", early), func(t *testing.T) {
			t.Parallel()
			s := newWriting()
			p := newProxied(t, time.Minute, s.handler(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				say := func(text string) {
					if early {
						fmt.Fprintln(w, text)
						_ = http.NewResponseController(w).Flush()
					}
				}
				say("on it")
				close(s.came)
				for {
					select {
					case <-s.release:
						return
					case <-time.After(time.Millisecond):
						say("still at it") // which nobody hears
					}
				}
			}))
			ctx, kill := context.WithCancel(t.Context())
			go func() {
				if response, err := p.request(ctx, "PUT", "5", "older"); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			}()
			<-s.came
			kill()
			if token := <-p.gone; token != "5" {
				t.Fatalf("%q went away", token)
			}
			s.holds(t, p)
		})
	}
}

// A newer run does not wait for ever for a service that does not answer.
func TestFenceHTTPGivesUp(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	hang := make(chan struct{})
	defer close(hang)
	p := newProxied(t, short, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			_, _ = io.Copy(io.Discard, r.Body)
			for range 1000 { // much longer than short, and longer still on a busy machine
				select {
				case <-hang:
					return
				case <-time.After(short / 200):
				}
			}
		}
	})
	p.expect(t, "PUT", "5", http.StatusGatewayTimeout, "5")
	p.expect(t, "HEAD", "6", 200, "6")

	p.expect(t, "PUT", "5", 409, "6")
}

// What the service sees, and what its client gets, is what it would be without the proxy.
func TestFenceHTTPPassesOn(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	p := newProxied(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(http.StatusEarlyHints) // which empties the headers of the proxy's own answer
		switch r.Method {
		case http.MethodPut: // it fences, too, and has seen this token
			w.Header().Set(httpfence.Header, r.Header.Get(httpfence.Header))
		case http.MethodPost: // it fences, too, and has seen a later one
			w.Header().Set(httpfence.Header, "99")
			w.WriteHeader(http.StatusConflict)
		case http.MethodPatch:
			w.WriteHeader(http.StatusConflict)
		case "LOCK": // it fences, too, and says so with a status of its own
			w.Header().Set(httpfence.Header, "99")
			w.WriteHeader(http.StatusPreconditionFailed)
		case "UNLOCK": // it means something else by the header
			w.Header().Set(httpfence.Header, "none")
			w.WriteHeader(http.StatusConflict)
		}
	})
	p.expect(t, "DELETE", "5", 200, "5")
	r := <-seen
	if r.URL.Path != "/path" || r.URL.RawQuery != "a=1;b=%zz" || r.Header.Get(httpfence.Header) != "5" {
		t.Errorf("the service sees %v %v", r.URL, r.Header)
	}
	if r.Header.Get("X-Forwarded-For") != "127.0.0.1" || "http://"+r.Header.Get("X-Forwarded-Host") != p.URL || r.Header.Get("X-Forwarded-Proto") != "http" {
		t.Errorf("the service sees %v", r.Header)
	}
	p.expect(t, "PUT", "5", 200, "5")
	<-seen
	p.expect(t, "PATCH", "5", 409, "5")
	<-seen
	p.expect(t, "POST", "5", 409, "99")
	<-seen
	p.expect(t, "LOCK", "5", 412, "99")
	<-seen
	p.expect(t, "UNLOCK", "5", 409, "5")
	<-seen
	p.expect(t, "GET", "", 200, "")
	<-seen
	p.expect(t, "PUT", "", 428, "")

	// Behind another proxy. The token reaches the service, even if somebody says that it is for the next hop only.
	behind, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, p.URL, http.NoBody)
	behind.Header = http.Header{
		httpfence.Header: {"5"}, "Connection": {httpfence.Header}, "X-Forwarded-For": {"10.0.0.1"},
		"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"example.com"}, "Forwarded": {"for=10.0.0.1"},
	}
	response, err := http.DefaultClient.Do(behind)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	h := (<-seen).Header
	if h.Get("X-Forwarded-For") != "10.0.0.1, 127.0.0.1" || h.Get("X-Forwarded-Proto") != "https" ||
		h.Get("X-Forwarded-Host") != "example.com" || h.Get("Forwarded") != "for=10.0.0.1" || h.Get(httpfence.Header) != "5" {
		t.Errorf("behind another proxy the service sees %v", h)
	}
}

func TestParseUpstream(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"http://localhost:9000": true, "https://host": true, "http://host/api/": true, "http://[::1]:80": true,
		"": false, "localhost:9000": false, "host": false, "/path": false, "ftp://host": false, "http://": false, "http://:80": false,
		"http://u:p@host": false, "http://host?x=1": false, "http://host?": false, "http://host#x": false, "http://host:port": false,
	} {
		if _, err := ParseUpstream(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
