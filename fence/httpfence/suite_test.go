package httpfence_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/httpfence"
)

// ledger is a service that keeps one value, and writes it in two halves.
type ledger struct {
	mu    sync.Mutex
	value string
	gates map[string]*fencetest.Gate // of the runs, by token
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	gate := l.gates[r.Header.Get(httpfence.Header)]
	l.mu.Unlock()
	gate.Step("in the handler")
	l.set(string(body[:len(body)/2]))
	gate.Step("in the middle of its write")
	l.set(string(body))
	gate.Step("after its write")
}

func (l *ledger) set(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value = value
}

func (l *ledger) get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}

func (l *ledger) gate(r fence.Run, gate *fencetest.Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates == nil {
		l.gates = map[string]*fencetest.Gate{}
	}
	l.gates[fmt.Sprint(r.Token)] = gate
}

// subject is a ledger behind a URL.
func (l *ledger) subject(url string) fencetest.Subject {
	return fencetest.Subject{
		Unshielded: true, // the handler writes in two halves, and GET without a token passes unfenced
		Read:       func(testing.TB) string { return l.get() },
		Writer: func(_ testing.TB, r fence.Run, gate *fencetest.Gate) fencetest.Writer {
			l.gate(r, gate)
			transport := &http.Transport{DialContext: gate.Dialer()}
			x := httpfence.NewResource(&http.Client{Transport: transport}, url)
			var client *http.Client
			return fencetest.Writer{
				Raise: func(ctx context.Context) (err error) {
					client, err = x.Raise(ctx, r)
					return err
				},
				Write: func(ctx context.Context, value string) error { return put(ctx, client, url, value) },
				Close: transport.CloseIdleConnections,
			}
		},
	}
}

func put(ctx context.Context, client *http.Client, url, value string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(value))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("PUT: %s", response.Status)
	}
	return nil
}

func TestSuite(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	server := httptest.NewServer(httpfence.Handler(l, httpfence.Options{}))
	defer server.Close()
	fencetest.Run(t, l.subject(server.URL))
}

// The highest token is in a file, and another server finds it there.
func TestSuiteDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &ledger{}
	open := func() *httptest.Server {
		keep, err := httpfence.OpenDirectory(dir)
		if err != nil {
			t.Fatal(err)
		}
		return httptest.NewServer(httpfence.Handler(l, httpfence.Options{Keep: keep}))
	}
	server := open()
	fencetest.Run(t, l.subject(server.URL))
	server.Close()

	restarted := open()
	defer restarted.Close()
	x := httpfence.NewResource(nil, restarted.URL)
	if _, err := x.Raise(t.Context(), fence.Run{Token: fencetest.LastToken}); err != nil {
		t.Errorf("the last run: %v", err)
	}
	_, err := x.Raise(t.Context(), fence.Run{Token: fencetest.LastToken - 1})
	if stale := wantStale(t, err); stale.Highest != fencetest.LastToken {
		t.Errorf("after a restart: %v", err)
	}
}
