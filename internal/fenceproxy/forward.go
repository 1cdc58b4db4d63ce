package fenceproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// forwarder passes requests on to UPSTREAM, behind the fence. It returns from a request that may change something only when
// UPSTREAM has answered it, even if the client has gone away: as long as nobody knows what becomes of it, no newer run may come in.
type forwarder struct {
	proxy    *httputil.ReverseProxy
	upstream *url.URL
	patience time.Duration // for UPSTREAM, and for a client that stands still
	failed   func(r *http.Request, err error)

	underWay sync.WaitGroup     // requests, and what has become of their connections
	ending   context.Context    // ends when the proxy does
	hangUp   context.CancelFunc // ends it: connections that would go on for ever must come to an end, too
}

const (
	idlePerUpstream = 64       // how many idle connections are kept: there is only one UPSTREAM
	headersLimit    = 32 << 10 // of a request, and of an answer, in bytes; in memory they take a multiple of it
)

var (
	errSlow      = errors.New("UPSTREAM took longer than --upstream-timeout: it may still do what it was asked")
	errBrokenOff = errors.New("the client broke off in the middle of its request")
)

func newForwarder(upstream *url.URL, patience time.Duration, log slog.Handler, failed func(*http.Request, error)) *forwarder {
	f := &forwarder{upstream: upstream, patience: patience, failed: failed}
	f.ending, f.hangUp = context.WithCancel(context.Background())
	f.proxy = &httputil.ReverseProxy{
		Transport:      upstreamTransport(),
		Rewrite:        f.rewrite,
		ModifyResponse: f.answered,
		ErrorHandler:   f.fail,
		FlushInterval:  -1, // at once
		ErrorLog:       slog.NewLogLogger(log, slog.LevelInfo),
	}
	return f
}

// upstreamTransport speaks HTTP/1.1 only, where each request has a connection to itself: so UPSTREAM can be told the end of a
// request that was broken off, and be heard to its own end.
func upstreamTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		// What the client asks for is what UPSTREAM is asked for, also as to compression.
		DisableCompression: true, Protocols: protocols, DialContext: dialUpstream,
		MaxIdleConnsPerHost: idlePerUpstream, IdleConnTimeout: idlePatience, TLSHandshakeTimeout: headerPatience,
		MaxResponseHeaderBytes: headersLimit,
	}
}

// rewrite makes the request for UPSTREAM of the one that came in. The host stays that of the client: links and redirects that
// UPSTREAM makes of it lead through the fence.
func (f *forwarder) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery // also where package url would not write it so
	r.SetURL(f.upstream)
	r.Out.Host = r.In.Host
	if r.In.URL.Path == "*" {
		r.Out.URL.Opaque = "*" // OPTIONS of the server itself
	}
	// This may not be the first proxy, and the one before it knows better how the client came.
	forwarded := []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"}
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	for _, name := range forwarded {
		if said := r.In.Header[name]; len(said) > 0 {
			r.Out.Header[name] = said
		}
	}
	if p := passageOf(r.In); p.token != "" { // UPSTREAM may fence, too
		r.Out.Header.Set(httpfence.Header, p.token)
	}
	onlyOnce(r.Out.Header)
}

// onlyOnce keeps the transport from sending a POST again when the connection breaks: UPSTREAM may still be at work on the first
// one. The transport does so where it finds these headers, and it finds them in their usual spelling only.
func onlyOnce(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.underWay.Add(1)
	defer f.underWay.Done()
	token := r.Header.Get(httpfence.Header) // the guard has looked at it
	p := &passage{
		token: token, holds: token != "" && httpfence.MayChange(r), patience: f.patience,
		answer: http.NewResponseController(w), client: r.Context(), ending: f.ending,
	}
	// The headers of the guard come back with the answer: what UPSTREAM says before that empties them.
	w.Header().Del(httpfence.Header)
	w.Header().Del("Vary")
	// Else the server takes the rest of the request away when the answer begins, from an UPSTREAM that is still at work on it.
	_ = p.answer.EnableFullDuplex() // HTTP/2 is so anyway
	ctx := r.Context()
	if p.holds {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.life = ctx
	p.limit = time.AfterFunc(f.patience, panics.Caught(p.giveUp))
	defer p.end()
	if newer := httpfence.Overtaken(r); newer != nil {
		panics.Go(func() { p.yield(newer) })
	}
	defer context.AfterFunc(p.client, panics.Caught(p.desert))()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: p.gotConn})
	r = r.WithContext(context.WithValue(ctx, passageKey{}, p))
	if p.unread = r.ContentLength != 0; p.unread {
		r.Body = &clientBody{r.Body, p}
	}
	f.proxy.ServeHTTP(w, r)
}

// answered takes the beginning of UPSTREAM's answer.
func (f *forwarder) answered(r *http.Response) error {
	p := passageOf(r.Request)
	if r.StatusCode == http.StatusSwitchingProtocols && r.Request.Header.Get("Upgrade") == "" {
		return errors.New("UPSTREAM goes on in another protocol, for which nobody has asked")
	}
	if p.token != "" {
		r.Header.Add(httpfence.Header, p.token)
		r.Header.Set(httpfence.Header, fmt.Sprint(httpfence.Highest(r.Header))) // UPSTREAM may know a higher one
		r.Header.Add("Vary", httpfence.Header)
	}
	if to := r.Header.Get("Location"); to != "" {
		r.Header.Set("Location", f.outside(to))
	}
	p.answered(r)
	return nil
}

// outside is a place at UPSTREAM as clients see it. Other places stay as they are.
func (f *forwarder) outside(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return location
	}
	u.Scheme = cmp.Or(u.Scheme, f.upstream.Scheme)
	rest, below := strings.CutPrefix(u.EscapedPath(), strings.TrimSuffix(f.upstream.EscapedPath(), "/"))
	if HostPort(u) != HostPort(f.upstream) || !below || rest != "" && rest[0] != '/' {
		return location
	}
	path := "/" + strings.TrimLeft(rest, "/") // with two of them it would be a host
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		path += "#" + u.EscapedFragment()
	}
	return path
}

// HostPort is host and port of a service, always written in the same way.
func HostPort(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// fail answers for an UPSTREAM that has not.
func (f *forwarder) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r)
	status, text := http.StatusBadGateway, "the upstream server cannot be reached"
	switch cause := context.Cause(r.Context()); {
	case errors.Is(cause, errSlow):
		status, text, err = http.StatusGatewayTimeout, "the upstream server does not answer", cause
		w.Header().Set("Connection", "close") // see giveUp
	case errors.Is(err, errBrokenOff):
		status, text = http.StatusBadRequest, errBrokenOff.Error()
	}
	if p.token != "" {
		w.Header().Set(httpfence.Header, p.token)
		w.Header().Add("Vary", httpfence.Header)
	}
	http.Error(w, text, status)
	if p.client.Err() != nil && errors.Is(err, context.Canceled) {
		return // the client did not want an answer
	}
	f.failed(r, fmt.Errorf("%d %s: %w", status, http.StatusText(status), err))
}

// idle waits until nothing is under way any more, and says whether it is so. No request may come in.
func (f *forwarder) idle(ctx context.Context) bool {
	idle := make(chan struct{})
	panics.Go(func() {
		f.underWay.Wait()
		close(idle)
	})
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}
