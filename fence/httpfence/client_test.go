package httpfence_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/httpfence"
)

func wantStale(t *testing.T, err error) *fence.StaleError {
	t.Helper()
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok {
		t.Fatalf("got %v, want a *fence.StaleError", err)
	}
	return stale
}

// answering is a server that always answers with a status and tokens. What raises the fence must reach it, and not a cache.
func answering(t *testing.T, status int, tokens ...string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cached := r.Header.Get("Cache-Control"); r.Method == http.MethodHead && cached != "no-cache" {
			t.Errorf("the fence is raised with Cache-Control %q", cached)
		}
		for _, token := range tokens {
			w.Header().Add(httpfence.Header, token)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "body")
	}))
	t.Cleanup(server.Close)
	return server
}

func TestTransport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  int
		tokens  []string
		highest int64 // of the StaleError; 0: none
	}{
		{200, nil, 0},
		{200, []string{"5"}, 0},
		{409, nil, 0},             // the service's own
		{409, []string{"5"}, 0},   // the service's own, and it fences
		{409, []string{"bad"}, 0}, // of something else
		{409, []string{"6"}, 6},
		{409, []string{"5", "7"}, 7}, // of a proxy, and of the service behind it
		{412, []string{"6"}, 0},
	} {
		server := answering(t, c.status, c.tokens...)
		client := &http.Client{Transport: &httpfence.Transport{Run: fence.Run{Token: 5}}}
		response, err := client.Get(server.URL)
		if c.highest != 0 {
			stale := wantStale(t, err)
			if stale.Token != 5 || stale.Highest != c.highest || stale.Resource != strings.TrimPrefix(server.URL, "http://") {
				t.Errorf("%d %q: %+v", c.status, c.tokens, stale)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d %q: %v", c.status, c.tokens, err)
			continue
		}
		if body, err := io.ReadAll(response.Body); string(body) != "body" || err != nil || response.StatusCode != c.status {
			t.Errorf("%d %q: %s, %q, %v", c.status, c.tokens, response.Status, body, err)
		}
		response.Body.Close()
	}
}

// base is what is below a Transport.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b(r) }

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestTransportIsAGoodRoundTripper(t *testing.T) {
	t.Parallel()
	body := &closing{Reader: strings.NewReader("stale")}
	var sent []string
	transport := &httpfence.Transport{Run: fence.Run{Token: 5}, Base: base(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Values(httpfence.Header)
		return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{httpfence.Header: {"6"}}, Body: body, Request: r}, nil
	})}
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "http://host/", http.NoBody)
	roundTrip := func(t http.RoundTripper) error {
		response, err := t.RoundTrip(r)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	wantStale(t, roundTrip(transport))
	if len(sent) != 1 || sent[0] != "5" || len(r.Header) != 0 || !body.closed {
		t.Errorf("sent %q, the caller's headers are %v, the body is closed: %v", sent, r.Header, body.closed)
	}
	// A token that is there already is somebody's decision, and the answer is about that one.
	r.Header.Set(httpfence.Header, "6")
	if err := roundTrip(transport); err != nil || sent[0] != "6" {
		t.Errorf("sent %q: %v", sent, err)
	}
	r.Header = nil
	wantStale(t, roundTrip(transport))
	broken := &httpfence.Transport{Run: fence.Run{Token: 5}, Base: base(func(*http.Request) (*http.Response, error) { return nil, io.EOF })}
	if err := roundTrip(broken); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestRaise(t *testing.T) {
	t.Parallel()
	const other = -1 // neither stale nor a matter of setup
	for _, c := range []struct {
		name   string
		status int
		tokens []string
		stale  int64
		kind   fence.SetupKind
	}{
		{"raised", 200, []string{"5"}, 0, 0},
		{"raised, and the service has no HEAD", 405, []string{"5"}, 0, 0},
		{"raised, and nothing is there", 404, []string{"5"}, 0, 0},
		{"stale", 409, []string{"6"}, 6, 0},
		{"stale by a later word", 200, []string{"5", "6"}, 6, 0},
		{"does not fence", 200, nil, 0, fence.Configuration},
		{"nothing is there", 404, nil, 0, fence.Configuration},
		{"says something older", 200, []string{"4"}, 0, fence.Configuration},
		{"says nonsense", 200, []string{"yes"}, 0, fence.Configuration},
		{"its own conflict", 409, nil, 0, fence.Configuration},
		{"wants a password", 401, nil, 0, fence.Credentials},
		{"refuses the user", 403, nil, 0, fence.Credentials},
		{"an older request is still inside", 503, nil, 0, other},
		{"a gateway is broken", 502, nil, 0, other},
		{"too many requests", 429, nil, 0, other},
	} {
		client, err := httpfence.NewResource(nil, answering(t, c.status, c.tokens...).URL).Raise(t.Context(), fence.Run{Token: 5})
		setup, wrong := errors.AsType[*fence.SetupError](err)
		switch {
		case (client == nil) != (err != nil):
			t.Errorf("%s: %v and %v", c.name, client, err)
		case c.stale != 0:
			if stale := wantStale(t, err); stale.Highest != c.stale || stale.Token != 5 || stale.Resource == "" {
				t.Errorf("%s: %+v", c.name, stale)
			}
		case c.kind == other && (err == nil || wrong), c.kind == 0 && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.kind > 0 && (!wrong || setup.Kind != c.kind || setup.Hint == ""):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, url := range []string{"", "host", "/path", "ftp://host/", "http://", "http://%zz/", "://"} {
		_, err := httpfence.NewResource(nil, url).Raise(t.Context(), fence.Run{Token: 5})
		if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Kind != fence.Configuration {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Hazard: the fence is raised at one server, and a redirect takes the write to another one that does not fence.
func TestWriterStaysWhereTheFenceIs(t *testing.T) {
	t.Parallel()
	var written atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			written.Add(1)
		}
	}))
	defer elsewhere.Close()
	var methods atomic.Value
	home := httptest.NewServer(httpfence.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods.Store(r.Method)
		if r.Method != http.MethodHead {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}
	}), httpfence.Options{}))
	defer home.Close()
	client, err := httpfence.NewResource(nil, home.URL).Raise(t.Context(), fence.Run{Token: 5})
	if err != nil || methods.Load() != http.MethodHead {
		t.Fatalf("%v by %v", err, methods.Load())
	}
	if err := put(t.Context(), client, home.URL, "x"); err == nil || written.Load() != 0 {
		t.Errorf("%v, and %d writes elsewhere", err, written.Load())
	}
	response, err := client.Get(home.URL)
	if err != nil {
		t.Fatalf("a read that is redirected: %v", err)
	}
	response.Body.Close()

	// However the place is written.
	again, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, strings.Replace(home.URL, "http://", "HTTP://", 1), http.NoBody)
	if response, err := client.Do(again); err == nil {
		response.Body.Close()
	} else if !strings.Contains(err.Error(), elsewhere.URL) { // where it is redirected to
		t.Error(err)
	}

	// Raise itself does not follow: the fence would be raised somewhere else.
	redirects := httptest.NewServer(http.RedirectHandler(home.URL, http.StatusMovedPermanently))
	defer redirects.Close()
	_, err = httpfence.NewResource(nil, redirects.URL).Raise(t.Context(), fence.Run{Token: 9})
	if setup, ok := errors.AsType[*fence.SetupError](err); !ok || !strings.Contains(setup.Hint, home.URL) {
		t.Errorf("got %v", err)
	}
	if err := put(t.Context(), client, home.URL, "x"); errors.As(err, new(*fence.StaleError)) {
		t.Error("the fence was raised behind a redirect")
	}
}

// Hazard: a run reads at a service of another job, raises its fence with a token that is none there, and stops that job for good.
func TestClientRaisesOneFence(t *testing.T) {
	t.Parallel()
	home := httptest.NewServer(httpfence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), httpfence.Options{}))
	defer home.Close()
	var seen http.Header
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		w.Header().Set(httpfence.Header, "7")
		w.WriteHeader(http.StatusConflict)
	}))
	defer elsewhere.Close()
	client, err := httpfence.NewResource(nil, home.URL).Raise(t.Context(), fence.Run{Token: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "5"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, elsewhere.URL, http.NoBody)
		if token != "" {
			r.Header.Set(httpfence.Header, token)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatalf("a conflict at another service: %v", err)
		}
		response.Body.Close()
		if seen.Get(httpfence.Header) != "" || response.StatusCode != http.StatusConflict || r.Header.Get(httpfence.Header) != token {
			t.Errorf("%s, and the other service sees %v", response.Status, seen)
		}
	}
}
