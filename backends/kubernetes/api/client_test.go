package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

// What a client started is gone when it is closed and its requests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = `{"metadata":{"name":"n","uid":"u","resourceVersion":"7"},"spec":{"holderIdentity":"h"}}`

// fake is a server that does what a test says.
type fake struct {
	*httptest.Server
	requests    atomic.Int32
	connections atomic.Int32
}

func serve(t *testing.T, handle http.HandlerFunc) *fake {
	t.Helper()
	f := new(fake)
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		handle(w, r)
	}))
	f.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			f.connections.Add(1)
		}
	}
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func client(t *testing.T, server string, credentials api.Credentials) *api.Client {
	t.Helper()
	c := api.New(api.Config{Server: server, Namespace: "ns", Credentials: credentials})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// cut ends a connection in the place of a reply.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func aLease(t *testing.T) *api.Lease {
	t.Helper()
	l := new(api.Lease)
	if err := json.Unmarshal([]byte(lease), l); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestOneCallIsOneRequest: an update is applied and its reply lost, on a connection that has served before: net/http
// repeats what it thinks harmless. The caller hears of the failure, and the server of one request.
func TestOneCallIsOneRequest(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(c *api.Client) error{
		"get":    func(c *api.Client) error { _, err := c.Get(t.Context(), "n"); return err },
		"create": func(c *api.Client) error { _, err := c.Create(t.Context(), aLease(t)); return err },
		"update": func(c *api.Client) error { _, err := c.Update(t.Context(), aLease(t)); return err },
		"list":   func(c *api.Client) error { _, _, err := c.List(t.Context(), "a=b", 1, ""); return err },
		"watch": func(c *api.Client) error {
			return c.Watch(t.Context(), "n", time.Minute, func() {}, func(api.Event) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if r.URL.Path == "/version" {
					say(w, http.StatusOK, `{}`)
					return
				}
				cut(w)
			})
			c := client(t, f.URL, nil)
			if _, _, err := c.Version(t.Context()); err != nil { // now there is a connection
				t.Fatal(err)
			}
			err := call(c)
			if _, answered := errors.AsType[*api.Error](err); err == nil || answered {
				t.Errorf("%v, want a failure without an answer", err)
			}
			if n := f.requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

func TestWrittenBy(t *testing.T) {
	t.Parallel()
	l := new(api.Lease)
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"n","managedFields":[
		{"manager":"leaderrun","operation":"Update","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:leaderrun/record":{}}},"f:spec":{"f:holderIdentity":{}}}},
		{"manager":"kubectl-edit","operation":"Update","fieldsV1":{"f:metadata":{"f:annotations":{"f:leaderrun/beat":{}}}}},
		{"manager":"other","operation":"Apply"}]}}`), l); err != nil {
		t.Fatal(err)
	}
	for annotation, want := range map[string][]string{"leaderrun/record": {"leaderrun"}, "leaderrun/beat": {"kubectl-edit"}, "leaderrun/prefix": nil} {
		if got := l.WrittenBy(annotation); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", annotation, got, want)
		}
	}
	if got := aLease(t).WrittenBy("leaderrun/record"); got != nil {
		t.Errorf("of a server that keeps nothing: %q", got)
	}
	if text, err := json.Marshal(l); err != nil || strings.Contains(string(text), "managedFields") {
		t.Errorf("an update would say who wrote what: %s, %v", text, err)
	}
}

// TestElsewhere: after it the next request goes over a new connection.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, lease) })
	c := client(t, f.URL, nil)
	for _, want := range []int32{1, 1, 2} {
		if want == 2 {
			c.RotateEndpoint()
		}
		if _, err := c.Get(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		if n := f.connections.Load(); n != want {
			t.Errorf("%d connections, want %d", n, want)
		}
	}
}

// TestRefusals: what a server says, and what something between us and it says.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   int
		text   string
		reason string
		shows  string
	}{
		"conflict":         {409, `{"kind":"Status","reason":"Conflict","message":"changed","details":{"kind":"leases"}}`, api.Conflict, "changed"},
		"a proxy's page":   {502, "<html>bad gateway", "", "<html>bad gateway"},
		"nothing":          {503, "", "", "Service Unavailable"},
		"a long page":      {500, strings.Repeat("x", 10000), "", "xxx…"},
		"not Kubernetes":   {200, "hello", "", "not Kubernetes'"},
		"another object":   {200, `{"kind":"Pod","metadata":{}}`, "", "not about a Lease"},
		"a redirect":       {302, "", "", "Found"},
		"half a lease":     {200, lease[:20], "", "not Kubernetes'"},
		"a number as name": {200, `{"metadata":{"name":7}}`, "", "field name"},
	} {
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, c.code, c.text) })
		_, err := client(t, f.URL, nil).Get(t.Context(), "n")
		if err == nil || !strings.Contains(err.Error(), c.shows) || len(err.Error()) > 400 {
			t.Errorf("%s: %v, want %q", name, err, c.shows)
		}
		if e, ok := errors.AsType[*api.Error](err); ok && (e.Reason != c.reason || e.Code != c.code) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestRotatedToken: a token is refused because it has been replaced meanwhile: the new one is read, and the request sent
// once more. One that is refused and not replaced is the answer.
func TestRotatedToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	put := func(token string) {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	put("first")
	var shown []string
	var mu sync.Mutex
	rotate := true
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		shown = append(shown, token)
		if token == "second" {
			say(w, http.StatusOK, lease)
			return
		}
		if rotate {
			put("second")
		}
		say(w, http.StatusUnauthorized, `{"kind":"Status","reason":"Unauthorized"}`)
	})
	c := client(t, f.URL, &api.TokenFile{Path: path})
	if _, err := c.Get(t.Context(), "n"); err != nil {
		t.Errorf("Get: %v", err)
	}
	if got := strings.Join(shown, " "); got != "first second" {
		t.Errorf("shown: %s", got)
	}
	put("third")
	rotate, shown = false, nil
	_, err := c.Get(t.Context(), "n")
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != http.StatusUnauthorized || len(shown) != 1 {
		t.Errorf("%v after %q", err, shown)
	}
	if strings.Contains(err.Error(), "third") {
		t.Errorf("shows the token: %v", err)
	}
}

// TestTokenFile: the last token counts while the file is being replaced, and not after it was refused.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	f := &api.TokenFile{Path: path}
	if _, err := f.Get(t.Context()); err == nil {
		t.Error("a token of a file that is not there")
	}
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := f.Get(t.Context())
	if err != nil || first.Token != "one" {
		t.Fatalf("%v, %v", first, err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if again, err := f.Get(t.Context()); err != nil || again != first {
		t.Errorf("%v, %v", again, err)
	}
	f.Refused(first)
	if c, err := f.Get(t.Context()); err == nil {
		t.Errorf("%v, which was refused", c)
	}
}

// TestWatch: events are told as they come; what ends a watch is told as its error.
func TestWatch(t *testing.T) {
	t.Parallel()
	event := func(kind string) string { return `{"type":"` + kind + `","object":` + lease + "}\n" }
	for name, c := range map[string]struct {
		code   int
		text   string
		events string
		reason string
	}{
		"it is cut":           {200, event("ADDED") + event("MODIFIED") + `{"type":"MODI`, "start ADDED MODIFIED", ""},
		"the server ends it":  {200, event("DELETED"), "start DELETED", ""},
		"too old":             {200, event("ADDED") + `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}`, "start ADDED", api.Expired},
		"refused":             {410, `{"kind":"Status","reason":"Gone"}`, "", api.Gone},
		"bookmarks":           {200, `{"type":"BOOKMARK","object":{}}` + "\n\n" + event("ADDED"), "start ADDED", ""},
		"a page of something": {200, "<html>", "start", ""},
	} {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if q := r.URL.Query(); q.Get("watch") != "true" || q.Get("fieldSelector") != "metadata.name=n" || q.Get("timeoutSeconds") != "60" {
				t.Errorf("%s: asked %s", name, r.URL)
			}
			say(w, c.code, c.text)
		})
		var told []string
		err := client(t, f.URL, nil).Watch(t.Context(), "n", time.Minute, func() { told = append(told, "start") }, func(e api.Event) {
			told = append(told, e.Type)
			if e.Lease.Name != "n" {
				t.Errorf("%s: %+v", name, e.Lease)
			}
		})
		if err == nil || c.reason != "" && !api.Says(err, c.reason) {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(told, " "); got != c.events {
			t.Errorf("%s: told %q, want %q", name, got, c.events)
		}
	}
}
