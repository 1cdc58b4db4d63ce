package httpfence_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/httpfence"
)

// send lets a handler answer a request with these tokens.
func send(h http.Handler, method string, tokens ...string) *httptest.ResponseRecorder {
	return sendWith(context.Background(), h, method, tokens...)
}

func sendWith(ctx context.Context, h http.Handler, method string, tokens ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/", http.NoBody)
	for _, token := range tokens {
		r.Header.Add(httpfence.Header, token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method string
		tokens []string
		status int
		header string // of the response; "": none
	}{
		{"PUT", []string{"10"}, 200, "10"},
		{"PUT", []string{"11"}, 200, "11"},
		{"GET", []string{"12"}, 200, "12"},
		{"PUT", []string{"9"}, 409, "10"},
		{"GET", []string{"9"}, 409, "10"},
		{"HEAD", []string{"9"}, 409, "10"},
		{"GET", nil, 200, ""},
		{"HEAD", nil, 200, ""},
		{"OPTIONS", nil, 200, ""},
		{"PUT", nil, 428, ""},
		{"POST", nil, 428, ""},
		{"DELETE", nil, 428, ""},
		{"PATCH", nil, 428, ""},
		{"TRACE", nil, 428, ""},
		{"PROPFIND", nil, 428, ""},
		{"PUT", []string{"10", "10"}, 400, ""},
		{"PUT", []string{"10, 10"}, 400, ""},
		{"PUT", []string{""}, 400, ""},
		{"GET", []string{""}, 400, ""},
		{"GET", []string{"0"}, 400, ""},
		{"PUT", []string{"-1"}, 400, ""},
		{"PUT", []string{"+10"}, 400, ""},
		{"PUT", []string{"010"}, 400, ""},
		{"PUT", []string{"1e3"}, 400, ""},
		{"PUT", []string{" 10"}, 400, ""},
		{"PUT", []string{"1763640000000"}, 200, "1763640000000"},
		{"PUT", []string{"9223372036854775807"}, 400, ""}, // who let it in would let nobody in after it
		{"HEAD", []string{"9223372036854775807"}, 400, ""},
		{"PUT", []string{"9223372036854775808"}, 400, ""},
		{"PUT", []string{"\"10\""}, 400, ""},
	} {
		let := 0
		var told []error
		h := httpfence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { let++ }), httpfence.Options{
			Refused: func(_ *http.Request, err error) { told = append(told, err) },
		})
		send(h, "PUT", "10")
		w := send(h, c.method, c.tokens...)
		if w.Code != c.status || w.Header().Get(httpfence.Header) != c.header || len(w.Header().Values(httpfence.Header)) > 1 {
			t.Errorf("%s %q: %d %v, want %d and %q", c.method, c.tokens, w.Code, w.Header(), c.status, c.header)
		}
		if varies := w.Header().Get("Vary") == httpfence.Header; varies != (c.header != "") {
			t.Errorf("%s %q: %v", c.method, c.tokens, w.Header())
		}
		if (let == 2) != (c.status == 200) || (len(told) == 1) != (c.status != 200) {
			t.Errorf("%s %q: %d let in, told %v", c.method, c.tokens, let, told)
		}
		if body := w.Body.String(); c.status != 200 && (strings.Count(body, "\n") != 1 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain")) {
			t.Errorf("%s %q: not one line of text: %q", c.method, c.tokens, body)
		}
		if _, stale := errors.AsType[*fence.StaleError](errors.Join(told...)); stale != (c.status == 409) {
			t.Errorf("%s %q: told %v", c.method, c.tokens, told)
		}
	}
}

// Hazard: a service accepts the offer of HTTP/2 with which curl and others come, and the fence sees no request of that connection. Nor does it
// see what is written to a WebSocket, which is no safe request.
func TestHTTP2IsNotOffered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		offer  string
		status int
	}{{"h2c", 200}, {"H2C", 200}, {"h2c, websocket", 428}, {"websocket, h2c", 428}, {"websocket", 428}} {
		var seen http.Header
		var given http.ResponseWriter
		h := httpfence.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { given, seen = w, r.Header }), httpfence.Options{})
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", http.NoBody)
		r.Header = http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {c.offer}, "Http2-Settings": {"AAMAAABkAAQCAAAAAAIAAAAA"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || seen.Get("Upgrade") != "" || seen.Get("Http2-Settings") != "" {
			t.Errorf("%s: %d, and the service sees %v", c.offer, w.Code, seen)
		}
		r.Header.Set(httpfence.Header, "5")
		h.ServeHTTP(w, r)
		if given != http.ResponseWriter(w) { // what a service can do with its connection it can do behind the fence
			t.Errorf("%s: the service gets a %T", c.offer, given)
		}
		if want := map[int]string{200: "", 428: "websocket"}[c.status]; seen.Get("Upgrade") != want || r.Header.Get("Upgrade") != c.offer {
			t.Errorf("%s: the service sees %v", c.offer, seen)
		}
	}
}

// Tokens of two resources say nothing about each other.
func TestResources(t *testing.T) {
	t.Parallel()
	h := httpfence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), httpfence.Options{
		Resource: func(r *http.Request) string { return r.Method },
	})
	for _, c := range []struct {
		method, token string
		want          int
	}{{"PUT", "5", 200}, {"POST", "3", 200}, {"PUT", "4", 409}, {"POST", "2", 409}, {"POST", "3", 200}} {
		if w := send(h, c.method, c.token); w.Code != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.token, w.Code, c.want)
		}
	}
}

// stage is a service whose requests stand still until they are told to end.
type stage struct {
	mu     sync.Mutex
	inside []string // tokens, in the order in which they came in
	end    map[string]chan struct{}
}

func (s *stage) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	token := r.Header.Get(httpfence.Header)
	s.mu.Lock()
	s.inside = append(s.inside, token)
	if s.end == nil {
		s.end = map[string]chan struct{}{}
	}
	if s.end[token] == nil {
		s.end[token] = make(chan struct{})
	}
	end := s.end[token]
	s.mu.Unlock()
	<-end
}

func (s *stage) came() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.inside, " ")
}

// start sends a request, and returns where its status will stand: 0 as long as it is under way.
func start(ctx context.Context, h http.Handler, token int) *int {
	status := new(int)
	go func() { *status = sendWith(ctx, h, "PUT", strconv.Itoa(token)).Code }()
	synctest.Wait()
	return status
}

// Hazard: the check and the effect are parted. An older request that has passed the check is still writing while the newer run
// reads.
func TestNewerWaitsForOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{}
		h := httpfence.Handler(s, httpfence.Options{})
		old1, old2 := start(t.Context(), h, 5), start(t.Context(), h, 5)
		if s.came() != "5 5" {
			t.Fatalf("inside are %q: requests of one run stand in each other's way", s.came())
		}
		new1 := start(t.Context(), h, 6)
		if s.came() != "5 5" || *new1 != 0 {
			t.Fatalf("inside are %q: the newer run did not wait", s.came())
		}
		// The newer one has been seen: nothing older comes in any more.
		if late := start(t.Context(), h, 5); *late != 409 {
			t.Errorf("a stale request got %d while a newer one waits", *late)
		}
		new2 := start(t.Context(), h, 7)
		if *new1 != 409 {
			t.Errorf("a waiting request got %d when a newer one came", *new1)
		}
		close(s.end["5"])
		synctest.Wait()
		if *old1 != 200 || *old2 != 200 || s.came() != "5 5 7" {
			t.Errorf("%d and %d, inside were %q", *old1, *old2, s.came())
		}
		close(s.end["7"])
		synctest.Wait()
		if *new2 != 200 {
			t.Errorf("the newest got %d", *new2)
		}
	})
}

// Who only reads does no harm to a newer run. What goes on in another protocol may write.
func TestNobodyWaitsForReaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, upgrade string
		want            int
	}{{"GET", "", 200}, {"HEAD", "", 200}, {"OPTIONS", "", 200}, {"GET", "h2c", 200}, {"GET", "websocket", 0}, {"TRACE", "", 0}, {"POST", "", 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{end: map[string]chan struct{}{"6": make(chan struct{})}}
			close(s.end["6"])
			h := httpfence.Handler(s, httpfence.Options{})
			r := httptest.NewRequestWithContext(t.Context(), c.method, "/", http.NoBody)
			r.Header.Set(httpfence.Header, "5")
			r.Header.Set("Upgrade", c.upgrade)
			go h.ServeHTTP(httptest.NewRecorder(), r)
			synctest.Wait()
			newer := start(t.Context(), h, 6)
			if *newer != c.want {
				t.Errorf("behind %s %s the newer run has %d, want %d", c.method, c.upgrade, *newer, c.want)
			}
			close(s.end["5"])
		})
	}
}

// Hazard: a place that is never given back keeps every newer run out.
func TestPlaceIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, fall := range map[string]func(){
		"returns": func() {}, "panics": func() { panic("a fault") }, "aborts": func() { panic(http.ErrAbortHandler) }, "exits": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				other := make(chan struct{})
				h := httpfence.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					switch r.Method {
					case http.MethodDelete:
						fall()
					case http.MethodPost:
						<-other
					}
				}), httpfence.Options{})
				// Another one of the same run is inside: the line stays.
				go send(h, "POST", "5")
				synctest.Wait()
				go func() {
					defer func() { _ = recover() }()
					send(h, "DELETE", "5")
				}()
				synctest.Wait()
				newer := start(t.Context(), h, 6)
				close(other)
				synctest.Wait()
				if *newer != 200 {
					t.Errorf("the newer run got %d", *newer)
				}
				if got := start(t.Context(), h, 6); *got != 200 {
					t.Errorf("the next request of it got %d", *got)
				}
			})
		})
	}
}
