package consul

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// middle stands between a client and a server. It counts requests, and does to an answer what a network or a
// server at fault would.
type middle struct {
	*httptest.Server

	hasty bool // questions wait for a second at most

	mu    sync.Mutex
	asked []string
	fault func(r *http.Response) (passes bool)
}

func between(t testing.TB, s *servers.ConsulServer) *middle {
	t.Helper()
	m := &middle{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.Addr()})
	proxy.ModifyResponse = func(r *http.Response) error {
		m.mu.Lock()
		fault := m.fault
		m.mu.Unlock()
		if fault != nil && !fault(r) {
			<-r.Request.Context().Done()
			return r.Request.Context().Err()
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, what(r))
		m.mu.Unlock()
		if m.hasty && r.URL.Query().Has("wait") {
			params := r.URL.Query()
			params.Set("wait", "1s")
			r.URL.RawQuery = params.Encode()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// what names a request: kv, txn, session/create, …
func what(r *http.Request) string {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	if parts[0] == "session" {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func (m *middle) url() string { return "consul://" + strings.TrimPrefix(m.URL, "http://") }

// strike makes something happen to the answers; a fault that returns false swallows one.
func (m *middle) strike(fault func(r *http.Response) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

// swallow drops the answers to one kind of request.
func (m *middle) swallow(kind string) {
	m.strike(func(r *http.Response) bool { return what(r.Request) != kind })
}

// requests returns what was asked since the last call.
func (m *middle) requests() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := strings.Join(m.asked, " ")
	m.asked = nil
	return all
}
