package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/test/suite"
)

// calls are all that a client can be asked, as one function each.
func calls(c *api.Client, l *api.Lease) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Get":    func(ctx context.Context) error { _, err := c.Get(ctx, "n"); return err },
		"Create": func(ctx context.Context) error { _, err := c.Create(ctx, l); return err },
		"Update": func(ctx context.Context) error { _, err := c.Update(ctx, l); return err },
		"List":   func(ctx context.Context) error { _, _, err := c.List(ctx, "a=b", 10, ""); return err },
		"Ready":  c.Ready,
		"Watch": func(ctx context.Context) error {
			return c.Watch(ctx, "n", time.Hour, func() {}, func(api.Event) {})
		},
	}
}

// TestHollowAnswers: hazard: null in the place of an object ends the program, or is taken for a Lease.
func TestHollowAnswers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"null", "{}", "[]", "[null]", `{"metadata":null,"spec":null}`, `{"metadata":{"name":"n","uid":"u","resourceVersion":null}}`,
		`{"kind":"LeaseList","items":[null]}`, `{"kind":"LeaseList","items":[{}]}`, `{"kind":"LeaseList","items":{}}`,
		`{"kind":"LeaseList","items":[` + lease + `,null]}`, `{"metadata":{"name":"n","uid":"u","resourceVersion":"7","annotations":[]}}`,
	} {
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, text) })
		for name, call := range calls(client(t, f.URL, nil), aLease(t)) {
			if err := call(t.Context()); err == nil && name != "Ready" {
				t.Errorf("%s takes %s", name, text)
			}
		}
	}
	for _, object := range []string{"null", "[]", "7", "{}", `{"metadata":null}`} {
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			say(w, http.StatusOK, `{"type":"MODIFIED","object":`+object+"}\n"+`null`+"\n"+`{"type":"ERROR","object":null}`)
		})
		err := client(t, f.URL, nil).Watch(t.Context(), "n", time.Minute, func() {}, func(e api.Event) { t.Errorf("%s: told of %+v", object, e.Lease) })
		if err == nil {
			t.Errorf("%s: no error", object)
		}
	}
}

// TestLargeAnswers: hazard: an answer, an event or an error takes all memory, by its length or by what it becomes.
func TestLargeAnswers(t *testing.T) { // not parallel: it measures what is allocated
	const mb = 1 << 20
	long, elements := strings.Repeat("x", 64*mb), "["+strings.Repeat("{},", 19*mb/10/3)+"{}]"
	event := func(object string) string { return `{"type":"MODIFIED","object":` + object + "}\n" }
	metadata := `{"metadata":{"name":"n","uid":"u","resourceVersion":"7","annotations":`
	many := `{"a":""` + strings.Repeat(`,"":""`, 19*mb/10/6) + "}}}"
	for name, text := range map[string]string{
		"a long text":         long,
		"a long name":         `{"metadata":{"name":"` + long + `"}}`,
		"many items":          `{"kind":"LeaseList","items":` + elements + `}`,
		"many annotations":    metadata + many,
		"a long event":        event(`"` + long + `"`),
		"an event with much":  event(metadata + many),
		"a long time":         `{"metadata":{"name":"n"},"spec":{"renewTime":"` + long[:mb] + `"}}`,
		"an event that lasts": `{"type":"` + long,
	} {
		for _, code := range []int{http.StatusOK, http.StatusForbidden} {
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, code, text) })
			for call, ask := range calls(client(t, f.URL, nil), aLease(t)) {
				var err error
				if took := suite.Allocated(func() { err = ask(t.Context()) }) / mb; took > 32 {
					t.Errorf("%s of %s (%d): %d MB were allocated", call, name, code, took)
				}
				fine := call == "Ready" && code == http.StatusOK // whatever it says
				if err == nil && !fine || err != nil && len(err.Error()) > 2000 {
					t.Errorf("%s of %s (%d): %.200v", call, name, code, err)
				}
			}
		}
	}
	status, err := json.Marshal(map[string]any{"kind": "Status", "message": long[:mb], "reason": "Forbidden"})
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusForbidden, string(status)) })
	for call, ask := range calls(client(t, f.URL, nil), aLease(t)) {
		if err := ask(t.Context()); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%s: a long message: %.200v", call, err)
		}
	}
}

// TestManyEvents: what a watch may be told has no end, as long as each event is of a length.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	const events = 100
	text := strings.Replace(lease, `"h"`, `"`+strings.Repeat("x", 100<<10)+`"`, 1)
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range events {
			_, _ = io.WriteString(w, `{"type":"MODIFIED","object":`+text+"}\n")
		}
	})
	n := 0
	err := client(t, f.URL, nil).Watch(t.Context(), "n", time.Minute, func() {}, func(api.Event) { n++ })
	if !errors.Is(err, io.EOF) || n != events {
		t.Errorf("told of %d events: %v", n, err)
	}
}

// A token file is read for every request: one that is a pipe, or has no end, is no reason to wait for ever, nor for all memory.
func TestTokenFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, make([]byte, 65<<10), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", large} {
		if _, err := (&api.TokenFile{Path: path}).Get(t.Context()); err == nil {
			t.Errorf("%s is a token", path)
		}
	}
	f := &api.TokenFile{Path: filepath.Join(dir, "token")}
	if err := os.WriteFile(f.Path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{f.Path, large} {
		f.Path = path
		if c, err := f.Get(t.Context()); err != nil || c.Token != "first" {
			t.Errorf("%s: %v, %v: the last token does not count", path, c.Token, err)
		}
	}
}
