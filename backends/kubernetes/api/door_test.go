package api

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestForgiven: a server may refuse whom it has let in before, but not for longer than a minute.
func TestForgiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d door
		for i, step := range []struct {
			after time.Duration
			code  int
			want  bool
		}{
			{0, 401, false},
			{time.Second, 403, false},
			{0, 401, false},
			{0, 200, true},
			{time.Hour, 401, true},
			{59 * time.Second, 401, true},
			{0, 500, true},
			{2 * time.Second, 401, false},
			{time.Hour, 401, false},
			{0, 201, true},
			{time.Hour, 401, true},
		} {
			time.Sleep(step.after)
			if d.saw(step.code); d.mayOpen() != step.want {
				t.Errorf("step %d: a refusal may pass: %v, want %v", i, !step.want, step.want)
			}
		}
	})
}

// known counts how often a credential was refused.
type known struct {
	Fixed
	refused atomic.Int32
}

func (k *known) Refused(Credential) { k.refused.Add(1) }

// TestLetInBefore: a refusal says whether it may pass. What a server tells anybody lets nobody in, and refuses nobody.
func TestLetInBefore(t *testing.T) {
	t.Parallel()
	var closed, private atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		anybody := r.Header.Get("Authorization") == ""
		if anybody != (r.URL.Path == "/readyz") {
			t.Errorf("asked for %s; as anybody: %v", r.URL, anybody)
		}
		if anybody && private.Load() || !anybody && closed.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"metadata":{"name":"n","uid":"u","resourceVersion":"7"}}`)
	}))
	t.Cleanup(web.Close)
	credentials := &known{Fixed: Fixed{Token: "sesame"}}
	c := New(Config{Server: web.URL, Namespace: "ns", Credentials: credentials})
	t.Cleanup(func() { _ = c.Close() })
	ask := func() error { _, err := c.Get(t.Context(), "n"); return err }
	watch := func() error { return c.Watch(t.Context(), "n", time.Minute, func() {}, func(Event) {}) }
	refuses := func(what string, err error, passing bool) {
		t.Helper()
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != http.StatusUnauthorized || e.Passing != passing {
			t.Errorf("%s: %v (%+v), want one that may pass: %v", what, err, e, passing)
		}
	}

	private.Store(true)
	refuses("as anybody", c.ReadyToAnybody(t.Context()), false)
	if n := credentials.refused.Load(); n != 0 {
		t.Errorf("a credential that was not shown was refused %d times", n)
	}
	closed.Store(true)
	private.Store(false)
	if err := c.ReadyToAnybody(t.Context()); err != nil {
		t.Error(err)
	}
	refuses("never let in", ask(), false)
	closed.Store(false)
	if err := ask(); err != nil {
		t.Error(err)
	}
	closed.Store(true)
	refuses("let in before", ask(), true)
	refuses("let in before, a watch", watch(), true)
}
