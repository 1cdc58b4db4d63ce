package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/fence/httpfence"
)

// forwarder passes requests on to UPSTREAM, behind the fence. It returns from a request that has a token only when UPSTREAM
// has answered it, even if the client has gone away: as long as nobody knows what becomes of it, no newer run may come in.
type forwarder struct {
	proxy    *httputil.ReverseProxy
	patience time.Duration // for the beginning of an answer, and for the rest where nobody waits for it
	failed   func(r *http.Request, err error)
}

// idlePerUpstream is how many idle connections are kept: there is only one UPSTREAM.
const idlePerUpstream = 64

var errSlow = errors.New("UPSTREAM took longer than --upstream-timeout: it may still do what it was asked")

func newForwarder(upstream *url.URL, patience time.Duration, v *voice, failed func(*http.Request, error)) *forwarder {
	f := &forwarder{patience: patience, failed: failed}
	f.proxy = &httputil.ReverseProxy{
		Transport: &http.Transport{
			// What the client asks for is what UPSTREAM is asked for, also as to compression.
			DisableCompression: true, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: idlePerUpstream, IdleConnTimeout: idlePatience, TLSHandshakeTimeout: httpPatience,
		},
		Rewrite:        func(r *httputil.ProxyRequest) { rewrite(r, upstream) },
		ModifyResponse: func(r *http.Response) error { passageOf(r.Request).answered(r); return nil },
		ErrorHandler:   f.fail,
		FlushInterval:  -1, // at once
		ErrorLog:       slog.NewLogLogger(&spokenLog{voice: v}, slog.LevelInfo),
	}
	return f
}

// rewrite makes the request for UPSTREAM of the one that came in.
func rewrite(r *httputil.ProxyRequest, upstream *url.URL) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery // also where package url would not write it so
	r.SetURL(upstream)
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
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := &passage{w: w, client: r.Context(), patience: f.patience}
	// The guard has written the token of a request that it let in. It comes back with the answer: what UPSTREAM says before
	// that empties the headers.
	p.token = w.Header().Get(httpfence.Header)
	w.Header().Del(httpfence.Header)
	// Else the server takes the rest of the request away when the answer begins, and the transport, which still wants to send it,
	// breaks the connection to an UPSTREAM that is still at work.
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 is so anyway
	ctx := r.Context()
	if p.mayChange(r) {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	p.limit = time.AfterFunc(f.patience, p.giveUp)
	defer p.end()
	defer context.AfterFunc(p.client, p.deserted)()
	f.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, passageKey{}, p)))
}

// fail answers for an UPSTREAM that has not.
func (f *forwarder) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r)
	status, text := http.StatusBadGateway, "the upstream server cannot be reached"
	if cause := context.Cause(r.Context()); errors.Is(cause, errSlow) {
		status, text, err = http.StatusGatewayTimeout, "the upstream server does not answer", cause
		w.Header().Set("Connection", "close") // see giveUp
	}
	if p.token != "" {
		w.Header().Set(httpfence.Header, p.token)
	}
	http.Error(w, text, status)
	if p.client.Err() != nil && errors.Is(err, context.Canceled) {
		return // the client did not want an answer
	}
	f.failed(r, fmt.Errorf("%d %s: %w", status, http.StatusText(status), err))
}

// passage is a request on its way to UPSTREAM and back.
type passage struct {
	w        http.ResponseWriter
	client   context.Context // ends when the client goes away
	token    string          // "": the request is not fenced
	cancel   context.CancelCauseFunc
	patience time.Duration

	mu      sync.Mutex
	limit   *time.Timer // until giveUp
	awaited bool        // the answer has begun, and somebody waits for the rest
	over    bool        // ServeHTTP has returned
}

type passageKey struct{}

func passageOf(r *http.Request) *passage {
	p, _ := r.Context().Value(passageKey{}).(*passage)
	return p
}

// mayChange says whether the request may change something at UPSTREAM that the fence protects.
func (p *passage) mayChange(r *http.Request) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	return p.token != "" && !safe
}

// answered takes the beginning of UPSTREAM's answer. The rest may take as long as it likes, if somebody waits for it.
func (p *passage) answered(r *http.Response) {
	if p.token != "" && (r.StatusCode != http.StatusConflict || r.Header.Get(httpfence.Header) == "") {
		r.Header.Set(httpfence.Header, p.token) // but where UPSTREAM fences too, and knows a higher one
	}
	both, upgraded := r.Body.(io.ReadWriteCloser)
	switch {
	case upgraded && r.StatusCode == http.StatusSwitchingProtocols:
		r.Body = &bothWays{both, p}
	case p.mayChange(r.Request):
		r.Body = toItsEnd{r.Body}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit.Stop()
	p.awaited = p.client.Err() == nil
	if !p.awaited {
		p.limit.Reset(p.patience)
	}
}

// deserted is called when nobody waits for the rest of the answer any more.
func (p *passage) deserted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaited && !p.over {
		p.awaited = false
		p.limit.Reset(p.patience)
	}
}

// giveUp ends the request. A client that still sends must not hold it up: it is not read from any more.
func (p *passage) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaited || p.over {
		return
	}
	p.cancel(errSlow)
	_ = http.NewResponseController(p.w).SetReadDeadline(time.Now())
}

func (p *passage) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.limit.Stop()
}

// toItsEnd is the rest of an answer, which is read to its end when it is closed: then UPSTREAM has done what it was asked.
type toItsEnd struct{ io.ReadCloser }

func (b toItsEnd) Close() error {
	_, _ = io.Copy(io.Discard, b.ReadCloser)
	return b.ReadCloser.Close()
}

// bothWays is a connection to UPSTREAM that has become something else, such as a WebSocket. When one side has said its last word
// the other one has only so long: the client may be stopped, and would keep newer runs out for ever.
type bothWays struct {
	io.ReadWriteCloser
	passage *passage
}

func (b *bothWays) Read(p []byte) (int, error) {
	n, err := b.ReadWriteCloser.Read(p)
	if err != nil {
		b.passage.deserted()
	}
	return n, err
}

// CloseWrite is called when the client has said its last word.
func (b *bothWays) CloseWrite() error {
	b.passage.deserted()
	half, ok := b.ReadWriteCloser.(interface{ CloseWrite() error })
	if !ok {
		return http.ErrNotSupported
	}
	return half.CloseWrite()
}
