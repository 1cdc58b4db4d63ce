package httpfence

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// A resource that nobody asks for is in the keeper alone.
func TestLinesAreForgotten(t *testing.T) {
	t.Parallel()
	g, ok := Handler(http.NotFoundHandler(), Options{Resource: func(r *http.Request) string { return r.URL.Path }}).(*guard)
	if !ok {
		t.Fatal("not a guard")
	}
	for i := range 1000 {
		r := httptest.NewRequestWithContext(t.Context(), "PUT", "/"+strconv.Itoa(i), http.NoBody)
		r.Header.Set(Header, strconv.Itoa(1+i%2))
		g.ServeHTTP(httptest.NewRecorder(), r)
	}
	if len(g.lines.of) != 0 {
		t.Errorf("%d lines are left", len(g.lines.of))
	}
}

// Who is inside hears of the first newer run that waits, and of no other.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	in, out := make(chan (<-chan struct{}), 1), make(chan struct{})
	h := Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		in <- Overtaken(r)
		if r.Header.Get(Header) == "5" {
			<-out
		}
	}), Options{})
	ask := func(method, token string) <-chan int {
		r := httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody)
		r.Header.Set(Header, token)
		status := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			status <- w.Code
		}()
		return status
	}
	first := ask("PUT", "5")
	newer := <-in
	beside := ask("PUT", "5")
	alike := <-in
	for _, c := range []<-chan struct{}{newer, alike} {
		select {
		case <-c:
			t.Error("nobody waits")
		default:
		}
	}
	waiting := ask("HEAD", "6")
	<-newer
	<-alike
	later := ask("PUT", "7")
	select {
	case <-in:
		t.Error("it does not wait")
	case <-time.After(10 * time.Millisecond):
	}
	close(out)
	if c := <-in; c != nil { // one of both: 6 may be stale by now
		select {
		case <-c:
			t.Error("nobody waits for the last one")
		default:
		}
	} else {
		<-in
	}
	for _, status := range []<-chan int{first, beside, later} {
		if code := <-status; code != http.StatusOK {
			t.Errorf("got %d", code)
		}
	}
	if code := <-waiting; code != http.StatusOK && code != http.StatusConflict {
		t.Errorf("got %d", code)
	}
	if c := Overtaken(httptest.NewRequestWithContext(t.Context(), "PUT", "/", http.NoBody)); c != nil {
		t.Error("a request that went through no fence is waited for")
	}
}
