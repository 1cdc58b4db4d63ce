package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/credentialplugin"
	"github.com/leaderrun/leaderrun/test/servers"
)

// scripted is a client that answers as a test says.
type scripted struct {
	client
	get   error
	ready error
	open  error // what Ready says to anybody
	deny  bool  // what Allowed says
}

func (s *scripted) Get(context.Context, string) (*api.Lease, error) { return nil, s.get }
func (s *scripted) Ready(context.Context) error                     { return s.ready }
func (s *scripted) ReadyToAnybody(context.Context) error            { return s.open }
func (s *scripted) Allowed(context.Context, string) (bool, error)   { return !s.deny, nil }
func (s *scripted) Close() error                                    { return nil }

func driverOf(s *scripted) *driver {
	below := &store{cfg: &config{url: new(backendurl.URL), prefix: "leaderrun", namespace: "ns"}, client: s}
	return &driver{backends.NewEngine(below), below}
}

// TestClassify: permanent is what no retry mends, and nothing that a minute may mend.
func TestClassify(t *testing.T) {
	t.Parallel()
	status := func(code int, reason, message string) *api.Error {
		return &api.Error{Host: "h", Code: code, Reason: reason, Message: message}
	}
	unauthorized, starting := status(401, "Unauthorized", "Unauthorized"), status(500, "", "readyz check failed")
	forbidden := status(403, "Forbidden", "leases is forbidden")
	for name, c := range map[string]struct {
		err   error
		ready error
		want  backends.PermanentKind // 0: an unknown outcome
		hint  string
	}{
		"unauthorized":                  {unauthorized, unauthorized, backends.Credentials, "kubectl auth whoami"},
		"unauthorized, of a ready one":  {unauthorized, nil, backends.Credentials, "kubectl auth whoami"},
		"unauthorized while it starts":  {unauthorized, starting, 0, ""},
		"unauthorized who was let in":   {&api.Error{Code: 401, Passing: true}, nil, 0, ""},
		"forbidden":                     {forbidden, nil, backends.Credentials, "a Role with get, list"},
		"forbidden while it starts":     {forbidden, starting, 0, ""},
		"forbidden to ask, too":         {forbidden, forbidden, backends.Credentials, "a Role with get, list"}, // it says what we may do
		"a webhook, 403":                {status(403, "Forbidden", `admission webhook "w" denied the request: no`), nil, backends.Configuration, "admission webhook"},
		"a webhook, 400":                {status(400, "", `admission webhook "w" denied the request: no`), nil, backends.Configuration, "admission webhook"},
		"a policy":                      {status(422, api.Invalid, `is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), nil, backends.Configuration, "admission webhook"},
		"a webhook that is away":        {status(500, "InternalError", `failed calling webhook "w": EOF`), nil, 0, ""},
		"forbidden, and then cut off":   {forbidden, errors.New("EOF"), 0, ""},
		"forbidden by a proxy":          {status(403, "", "<html>"), nil, 0, ""},
		"a namespace that ends":         {status(403, "Forbidden", "it is being terminated"), nil, backends.Configuration, "namespace"},
		"a quota":                       {status(403, "Forbidden", "exceeded quota: q"), nil, backends.Configuration, "ResourceQuota"},
		"no such namespace":             {&api.Error{Code: 404, Reason: api.NotFound, Kind: "namespaces"}, nil, backends.Configuration, "create namespace ns"},
		"no such kind":                  {status(404, api.NotFound, "could not find the requested resource"), nil, backends.Configuration, "1.14"},
		"a page while it starts":        {status(404, "", "404 page not found"), starting, 0, ""},
		"a page":                        {status(404, "", "404 page not found"), nil, backends.Configuration, "1.14"},
		"too large":                     {status(422, api.Invalid, "Too long"), nil, backends.Configuration, "256 kB"},
		"another port":                  {status(400, "", "Client sent an HTTP request to an HTTPS server."), nil, backends.Configuration, "https://"},
		"a redirect":                    {status(302, "", ""), nil, backends.Configuration, "API server"},
		"too many requests":             {status(429, "TooManyRequests", ""), nil, 0, ""},
		"unavailable":                   {status(503, "ServiceUnavailable", ""), nil, 0, ""},
		"etcd is away":                  {status(500, "InternalError", "etcdserver: request timed out"), nil, 0, ""},
		"a timeout of the server's own": {status(504, "Timeout", ""), nil, 0, ""},
		"a connection that broke":       {errors.New("h: EOF"), nil, 0, ""},
		"the end of the context":        {context.DeadlineExceeded, nil, 0, ""},
		"a plugin that is not there":    {fmt.Errorf("plugin: %w", credentialplugin.ErrMissing), nil, backends.Configuration, "PATH"},
		"no process for a plugin":       {fmt.Errorf("plugin: %w", syscall.EAGAIN), nil, 0, ""},
	} {
		d := driverOf(&scripted{get: c.err, ready: c.ready, open: unauthorized})
		_, err := d.Acquire(t.Context(), newClaim("job"))
		p, permanent := errors.AsType[*backends.PermanentError](err)
		switch {
		case err == nil || !permanent && c.want != 0:
			t.Errorf("%s: %v, want kind %d", name, err, c.want)
		case permanent && (p.Kind != c.want || !strings.Contains(p.Hint, c.hint)):
			t.Errorf("%s: %v, kind %d, hint %q; want kind %d with %q", name, err, p.Kind, p.Hint, c.want, c.hint)
		case !permanent && !strings.Contains(err.Error(), `claim "job"`):
			t.Errorf("%s: %v does not say what failed", name, err)
		}
	}
}

// TestARoleWithoutUpdate: hazard: a Role that may create and not update lets the command run, and its end is lost.
func TestARoleWithoutUpdate(t *testing.T) {
	t.Parallel()
	s := &scripted{get: &api.Error{Code: 404, Reason: api.NotFound, Kind: "leases"}, deny: true} // which panics if a Lease is created
	_, err := driverOf(s).Acquire(t.Context(), newClaim("job"))
	p, permanent := errors.AsType[*backends.PermanentError](err)
	if !permanent || p.Kind != backends.Credentials || !strings.Contains(err.Error(), "may not update leases in namespace ns") || p.Hint != roleHint {
		t.Errorf("%v", err)
	}
}

// TestAskedAsAnybody: while a server starts it may refuse a credential that it takes a moment later. Whether it starts it tells
// anybody; where it does not, who has a credential is asked, as it always was.
func TestAskedAsAnybody(t *testing.T) {
	t.Parallel()
	unauthorized, forbidden := &api.Error{Code: 401, Reason: "Unauthorized"}, &api.Error{Code: 403, Reason: "Forbidden"}
	starting := &api.Error{Code: 500, Message: "readyz check failed"}
	for name, c := range map[string]struct {
		err, open, ready error
		permanent        bool
	}{
		"it starts":                      {unauthorized, starting, unauthorized, false},
		"it is gone":                     {unauthorized, errors.New("EOF"), unauthorized, false},
		"it has started":                 {unauthorized, nil, unauthorized, true},
		"it has started, says a role":    {forbidden, nil, forbidden, true},
		"it tells nobody":                {unauthorized, unauthorized, unauthorized, true},
		"it tells only us":               {unauthorized, forbidden, starting, false},
		"a proxy sends elsewhere":        {unauthorized, &api.Error{Code: 302}, unauthorized, true},
		"it knows no Leases, and starts": {&api.Error{Code: 404}, starting, nil, false},
	} {
		_, err := driverOf(&scripted{get: c.err, open: c.open, ready: c.ready}).Acquire(t.Context(), newClaim("job"))
		if err == nil || backends.IsPermanent(err) != c.permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatAnswersIsNotForUs: hazard: a server that refuses our certificate, or is none of Kubernetes', is asked for ever. Or one
// reply that was cut ends a run that the next try would start.
func TestWhatAnswersIsNotForUs(t *testing.T) {
	t.Parallel()
	certs, others := servers.NewCertificates(t), servers.NewCertificates(t)
	serve := func(config *tls.Config, body string) string {
		web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		if web.TLS = config; config == nil {
			web.Start()
		} else {
			web.StartTLS()
		}
		t.Cleanup(web.Close)
		return web.URL
	}
	strict := certs.Server(t)
	strict.ClientAuth = tls.RequireAnyClientCert
	strictest := strict.Clone()
	strictest.MaxVersion = tls.VersionTLS12
	bare, stranger := certs.Client(), others.Client()
	bare.Certificates = nil
	plain := serve(nil, "<html>")
	for name, c := range map[string]struct {
		server string
		tls    *tls.Config
		kind   backends.PermanentKind
		hint   string
	}{
		"no certificate":               {serve(strict, ""), bare, backends.Credentials, "client-certificate"},
		"no certificate, over TLS 1.2": {serve(strictest, ""), bare, backends.Credentials, "client-certificate"},
		"another authority":            {serve(strict, ""), stranger, backends.Configuration, "certificate-authority"},
		"no TLS there":                 {strings.Replace(plain, "http:", "https:", 1), bare, backends.Configuration, "http://"},
		"a web server":                 {plain, nil, backends.Configuration, "is the server of the kubeconfig"},
		"a store of other things":      {serve(nil, "{}"), nil, backends.Configuration, "is the server of the kubeconfig"},
	} {
		d := driverOf(nil)
		d.client = api.New(api.Config{Server: c.server, TLS: c.tls, Namespace: "ns"})
		t.Cleanup(func() { _ = d.Close() })
		_, err := d.Acquire(t.Context(), newClaim("job"))
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || p.Kind != c.kind || !strings.Contains(p.Hint, c.hint) {
			t.Errorf("%s: %v (%+v)", name, err, p)
		}
	}
	cut := ofTransport(fmt.Errorf("h: %w", &api.ProtocolError{Err: io.ErrUnexpectedEOF, Spoken: true}))
	if cut == nil || backends.IsPermanent(cut) {
		t.Errorf("a reply that was cut: %v", cut)
	}
}
