package kubernetes

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/httplimit"
	"github.com/leaderrun/leaderrun/test/suite"
)

// clusterOf returns the URL of a backend whose kubeconfig has one cluster and one user.
func clusterOf(t *testing.T, cluster, user string) string {
	t.Helper()
	return "k8s://ns?kubeconfig=" + put(t, t.TempDir(), "config", `
current-context: a
clusters: [{name: c, cluster: `+cluster+`}]
contexts: [{name: a, context: {cluster: c, user: u}}]
users: [{name: u, user: `+user+`}]
`)
}

// answers is a driver whose server answers each request as the function does.
func answers(t *testing.T, answer http.HandlerFunc) *driver {
	t.Helper()
	web := httptest.NewServer(answer)
	t.Cleanup(web.Close)
	return open(t, clusterOf(t, `{server: "`+web.URL+`"}`, "{}"))
}

// TestHostileAnswers: hazard: a claim, a renewal or a list that is answered by 101, or with null, hangs or ends the program.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	switched := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			context.AfterFunc(t.Context(), func() { _ = conn.Close() })
		}
	}
	say := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	c := newClaim("job")
	for name, answer := range map[string]http.HandlerFunc{
		"101": switched, "null": say("null"), "null in a list": say(`{"kind":"LeaseList","items":[null]}`), "nothing": say(""),
	} {
		d := answers(t, answer)
		d.client.(interface{ Ready(context.Context) error }).Ready(t.Context()) // there is a connection
		ended := make(chan map[string]error, 1)
		go func() { ended <- suite.On(t).EveryStep(d, c) }()
		select {
		case errs := <-ended:
			for step, err := range errs {
				if err == nil || errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrUnknownJob) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %s: %v", name, step, err)
				}
			}
		case <-time.After(2 * suite.Patience):
			t.Fatalf("%s: the driver hangs", name)
		}
	}
}

// TestEndlessList: hazard: pages that do not end take all memory.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	lease := `{"metadata":{"name":"` + strings.Repeat("n", 253) + `","annotations":{"leaderrun/prefix":"leaderrun","leaderrun/record":"{\"job\":\"` +
		strings.Repeat("j", 1000) + `\"}"}}}`
	page := `{"kind":"LeaseList","metadata":{"continue":"x"},"items":[` + strings.Repeat(lease+",", 99) + lease + `]}`
	var pages atomic.Int32
	d := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		if pages.Add(1) > 500 { // 50 MB: it is long enough for the test
			page = strings.Replace(page, `"x"`, `""`, 1)
		}
		_, _ = io.WriteString(w, page)
	})
	ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
	defer cancel()
	if jobs, err := d.Jobs(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) || len(jobs) > 1e5 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

// TestListOfFullRecords: hazard: a hundred jobs whose records have all that one may have are more than one answer may have, and are
// never listed.
func TestListOfFullRecords(t *testing.T) {
	t.Parallel()
	const all = 150
	ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
	defer cancel()
	for size, full := range map[int]int{29_000: 100, 300_000: 13} {
		padding := strings.Repeat("n", size)
		leases := make([]string, all) // once: under the race detector it is text like this that costs
		for i := range leases {
			if i == full {
				padding = ""
			}
			leases[i] = fmt.Sprintf(`{"metadata":{"name":"lease%d","annotations":{"leaderrun/prefix":"leaderrun","leaderrun/record":"{\"job\":\"job%03d\"}","other":"`,
				i, i) + padding + `"}}}`
		}
		var asked atomic.Int32
		d := answers(t, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			q := r.URL.Query()
			from, _ := strconv.Atoi(q.Get("continue"))
			limit, _ := strconv.Atoi(q.Get("limit"))
			to, next := min(all, from+limit), ""
			if to < all {
				next = strconv.Itoa(to)
			}
			_, _ = io.WriteString(w, `{"kind":"LeaseList","metadata":{"continue":"`+next+`"},"items":[`+strings.Join(leases[from:to], ",")+"]}")
		})
		jobs, err := d.Jobs(ctx)
		if err != nil || len(jobs) != all || jobs[0] != "job000" || jobs[all-1] != "job149" || len(slices.Compact(jobs)) != all {
			t.Errorf("%d bytes each: %d jobs, %v, after %d requests", size, len(jobs), err, asked.Load())
		}
	}
	d := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind":"LeaseList","items":[`+strings.Repeat(" ", 3<<20)+`]}`)
	})
	if _, err := d.Jobs(ctx); !errors.Is(err, httplimit.ErrTooLarge) {
		t.Errorf("one that is too large by itself: %v", err)
	}
}

// TestCredentialsInClear: hazard: a token, or what a plugin prints, goes through a network where everybody reads it.
func TestCredentialsInClear(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]string{
		"a token": "{token: sesame}", "a file": "{tokenFile: /nowhere}", "a plugin": `{exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere}}`,
		"a certificate": "{client-certificate: /nowhere, client-key: /nowhere}", "its data": "{client-certificate-data: AAAA, client-key-data: AAAA}",
	} {
		for _, server := range []string{"http://api.example:80", "HTTP://10.0.0.1", "http://localhost.example", "http://127.example"} {
			_, err := Open(clusterOf(t, `{server: "`+server+`"}`, user))
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Hint, "https://") || strings.Contains(p.Error(), "sesame") {
				t.Errorf("%s at %s: %v (%+v)", name, server, err, p)
			}
		}
	}
	var asked, shown atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			shown.Add(1)
		}
	}))
	t.Cleanup(web.Close)
	d, err := Open(clusterOf(t, `{server: "`+web.URL+`"}`, "{token: sesame}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	_, _ = d.Inspect(t.Context(), "job")
	if asked.Load() == 0 || shown.Load() != 0 {
		t.Errorf("of %d requests to a proxy on this host %d showed the token", asked.Load(), shown.Load())
	}
}

// TestUpperCaseScheme: hazard: HTTPS:// drops the authority, the name in the certificate and our own.
func TestUpperCaseScheme(t *testing.T) {
	t.Parallel()
	served := make(chan *http.Request, 1)
	web := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r }))
	t.Cleanup(web.Close)
	ca := put(t, t.TempDir(), "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	for _, scheme := range []string{"https", "HTTPS", "Https"} {
		cfg, err := parseURL(clusterOf(t, `{server: "`+strings.Replace(web.URL, "https", scheme, 1)+`", certificate-authority: `+ca+`, tls-server-name: example.com}`, "{token: sesame}"), ours())
		if err != nil {
			t.Fatal(err)
		}
		if cfg.api.TLS == nil || cfg.api.TLS.RootCAs == nil || cfg.api.TLS.ServerName != "example.com" || !strings.HasPrefix(cfg.server, "https://") {
			t.Errorf("%s: %+v of %s", scheme, cfg.api.TLS, cfg.server)
		}
		d, err := Open(clusterOf(t, `{server: "`+strings.Replace(web.URL, "https", scheme, 1)+`", certificate-authority: `+ca+`, tls-server-name: example.com}`, "{token: sesame}"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = d.Inspect(t.Context(), "job")
		_ = d.Close()
		select {
		case r := <-served:
			if r.Header.Get("Authorization") != "Bearer sesame" {
				t.Errorf("%s: not as ourselves", scheme)
			}
		default:
			t.Errorf("%s: the server was not asked", scheme)
		}
	}
}
