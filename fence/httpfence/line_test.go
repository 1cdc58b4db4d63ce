package httpfence

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
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
