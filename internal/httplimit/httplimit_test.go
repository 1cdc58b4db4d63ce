package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"
)

// body returns a body of that many bytes.
func body(ctx context.Context, bytes int) *Body {
	return &Body{from: io.NopCloser(strings.NewReader(strings.Repeat("x", bytes))), ctx: ctx}
}

func TestBody(t *testing.T) {
	for bytes, want := range map[int]error{0: nil, small: nil, MostBytes: nil, MostBytes + 1: ErrTooLarge, 2 * MostBytes: ErrTooLarge} {
		b := body(t.Context(), bytes)
		text, err := io.ReadAll(b)
		if !errors.Is(err, want) || want == nil && len(text) != bytes || len(text) > MostBytes+1 {
			t.Errorf("%d: %d, %v", bytes, len(text), err)
		}
		if _, err := b.Read(make([]byte, 1)); want != nil && !errors.Is(err, want) {
			t.Errorf("%d, and one more: %v", bytes, err)
		}
		if err := b.Close(); err != nil || len(places) != 0 {
			t.Errorf("%d: %v, %d places are taken", bytes, err, len(places))
		}
	}
	b := body(t.Context(), 3*MostBytes)
	for range 3 { // as three messages
		if n, err := io.CopyN(io.Discard, b, MostBytes); err != nil {
			t.Errorf("%d, %v", n, err)
		}
		b.Next()
	}
	if n, err := b.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v", n, err)
	}
	failed := errors.New("failed")
	b = &Body{from: io.NopCloser(iotest.ErrReader(failed)), ctx: t.Context()}
	if _, err := io.ReadAll(b); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

// TestPlaces: so many large answers are in memory, and no more; small ones always.
func TestPlaces(t *testing.T) {
	var taken []*Body
	for range large {
		b := body(t.Context(), small+1)
		if _, err := io.ReadAll(b); err != nil {
			t.Fatal(err)
		}
		taken = append(taken, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { _, err := io.ReadAll(body(ctx, small+1)); over <- err }()
	if n, err := io.Copy(io.Discard, body(t.Context(), small-1)); err != nil || n != small-1 {
		t.Errorf("a small one: %d, %v", n, err)
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("one more: %v", err)
	}
	waits := body(t.Context(), small+1)
	go func() { _, err := io.ReadAll(waits); over <- err }()
	_ = taken[0].Close()
	_ = taken[0].Close() // once more changes nothing
	if err := <-over; err != nil {
		t.Error(err)
	}
	for _, b := range append(taken, waits) {
		_ = b.Close()
	}
	if len(places) != 0 {
		t.Errorf("%d places are taken", len(places))
	}
}

// Hazard: watches break off in the middle of their messages. Requests have places all the same.
func TestWatchesTakeNoPlaceOfRequests(t *testing.T) {
	for range large {
		b := body(Watch(t.Context()), 2*small)
		if _, err := io.ReadAll(b); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request := body(ctx, 2*small)
	if _, err := io.ReadAll(request); err != nil {
		t.Error(err)
	}
	_ = request.Close()
}

// TestTransport: compressed answers stay as they are, 101 is refused, and a request is one of HTTP/1.1.
func TestTransport(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" || r.Proto != "HTTP/1.1" {
			t.Errorf("%s %s", r.Proto, r.Header)
		}
		if r.URL.Path == "/switch" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				_, _ = io.Copy(io.Discard, conn) // until the client hangs up
				_ = conn.Close()
			}
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "x")
	}))
	defer web.Close()
	transport := New(&http.Transport{})
	defer transport.CloseIdleConnections()
	get := func(path string) (*http.Response, error) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return transport.RoundTrip(q)
	}
	r, err := get("/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	if r, err := get("/switch"); !errors.Is(err, ErrSwitched) {
		t.Errorf("%v, %v", r, err)
		_ = r.Body.Close()
	}
}

// TestLongHeaders: hazard: headers that do not end, of one answer or of interim ones, hold up a request for ever or take all memory.
func TestLongHeaders(t *testing.T) {
	transport := New(&http.Transport{})
	defer transport.CloseIdleConnections()
	for name, answer := range map[string]string{
		"headers":         "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<16),
		"one header":      "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 1<<20),
		"interim answers": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1<<14),
		"trailers":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", 1<<16),
		"chunks":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 3000)+"\r\n \r\n", 100),
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, answer)
			_, _ = io.Copy(io.Discard, conn) // until the client hangs up
			_ = conn.Close()
		}))
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r, err := transport.RoundTrip(q)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		web.Close()
	}
}

func TestWeigh(t *testing.T) {
	list := func(n int) string { return "[" + strings.Repeat("0,", n-1) + "0]" }
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing":          {"", nil},
		"a string":         {`"` + strings.Repeat(`,[{\"`, MostValues) + `"`, nil},
		"values":           {list(MostValues - 1), nil},
		"too many":         {list(MostValues + 1), ErrTooLarge},
		"too many objects": {"[" + strings.Repeat("{},", MostValues) + "{}]", ErrTooLarge},
		"too many names":   {"{" + strings.Repeat(`"":0,`, MostValues/2) + `"":0}`, ErrTooLarge},
		"depth":            {strings.Repeat("[", MostDepth), nil},
		"too deep":         {strings.Repeat("[", MostDepth+1), ErrTooLarge},
		"a number":         {"[-1.7976931348623157e+308]", nil},
		"a long one":       {strings.Repeat("1", 100), ErrTooLarge},
		"blanks":           {strings.Repeat(" ", 1000) + "7", nil},
	} {
		if err := Weigh([]byte(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBrief(t *testing.T) {
	if got := Brief("short"); got != "short" {
		t.Error(got)
	}
	for i := range 4 {
		got := Brief(strings.Repeat("x", mostText-i) + strings.Repeat("ä€", 10))
		if !utf8.ValidString(got) || len(got) > mostText+3 || !strings.HasSuffix(got, "…") {
			t.Errorf("%q", got)
		}
	}
	short := errors.New("short")
	if BriefError(nil) != nil || BriefError(short) != short { //nolint:errorlint // the very error
		t.Error("an error that is short is another one")
	}
	long := BriefError(fmt.Errorf("%s: %w", strings.Repeat("x", 1<<20), short))
	if !errors.Is(long, short) || len(long.Error()) > mostText+3 {
		t.Errorf("%.100v", long)
	}
}
