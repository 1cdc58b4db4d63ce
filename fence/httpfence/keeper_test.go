package httpfence_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leaderrun/leaderrun/fence/httpfence"
)

// keeping is a keeper that fails.
type keeping struct {
	httpfence.Memory

	err error
}

func (k *keeping) Raise(ctx context.Context, resource string, token int64) (int64, error) {
	if k.err != nil {
		return 0, k.err
	}
	return k.Memory.Raise(ctx, resource, token)
}

func TestTokenThatCannotBeKept(t *testing.T) {
	t.Parallel()
	let := 0
	var told error
	h := httpfence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { let++ }), httpfence.Options{
		Keep:    &keeping{err: errors.New("disk /secret is full")},
		Refused: func(_ *http.Request, err error) { told = err },
	})
	w := send(h, "PUT", "5")
	if let != 0 || w.Code != 503 || w.Header().Get(httpfence.Header) != "" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d let in, %d %v %q", let, w.Code, w.Header(), w.Body)
	}
	if kept, ok := errors.AsType[*httpfence.KeepError](told); !ok || kept.Resource != "default" || !strings.Contains(kept.Error(), "full") {
		t.Errorf("told %v", told)
	}
}

// liar is a keeper that keeps nothing, or only what somebody else has said.
type liar int64

func (l liar) Raise(context.Context, string, int64) (int64, error) { return int64(l), nil }

func TestKeeperThatKeepsLess(t *testing.T) {
	t.Parallel()
	h := httpfence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let in") }), httpfence.Options{Keep: liar(4)})
	if w := send(h, "PUT", "5"); w.Code != 503 || w.Header().Get(httpfence.Header) != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// Hazard: an older run is told that it was overtaken, by a token that is not kept then, and another request of its passes.
func TestTokenIsToldOnceItIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, keep := &stage{}, &keeping{}
		h := httpfence.Handler(s, httpfence.Options{Keep: keep})
		older := start(t.Context(), h, 5)
		keep.err = errors.New("the disk is full")
		if newer := start(t.Context(), h, 6); *newer != 503 {
			t.Errorf("the newer run got %d", *newer)
		}
		keep.err = nil
		if again := start(t.Context(), h, 5); *again != 0 {
			t.Errorf("the older run got %d", *again)
		}
		close(s.end["5"])
		synctest.Wait()
		if *older != 200 {
			t.Errorf("the older run got %d", *older)
		}
	})
}

// Resources may come from paths, and paths from anybody. To make room by forgetting would let a stale request pass.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var m httpfence.Memory
	for i := range httpfence.MaxInMemory {
		if _, err := m.Raise(t.Context(), strconv.Itoa(i), 5); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Raise(t.Context(), "one more", 5); err == nil {
		t.Error("there is room for ever more resources")
	}
	for _, c := range []struct{ token, want int64 }{{4, 5}, {6, 6}} {
		if highest, err := m.Raise(t.Context(), "0", c.token); highest != c.want || err != nil {
			t.Errorf("a resource that is known: %d, %v, want %d", highest, err, c.want)
		}
	}
}
