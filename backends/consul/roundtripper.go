package consul

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 15 * time.Second // of a request whose caller set none
	idleConns      = 2                // a renewal and its hedge, or a watch and a claim
)

// roundTripper sends requests to one host at a time, and to the next one when that fails. It stands below the client
// library, which reads more of the environment than may count, and loses the server's words in some errors.
type roundTripper struct {
	cfg       *config
	transport *httplimit.Transport
	hosts     *backendurl.Rotation
	faulty    backendurl.Faults
	spoken    atomic.Bool // a host has answered in HTTP

	mu      sync.Mutex
	token   string
	rotated time.Time // when another token was read
}

func newRoundTripper(c *config) *roundTripper {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}
	return &roundTripper{cfg: c, hosts: backendurl.NewRotation(c.url.Addrs), token: c.token, transport: httplimit.New(&http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: c.tls, TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute,
	})}
}

// client returns the client library, which sends through r. It is given values for all that it would read from the
// environment; what has to go into a request RoundTrip puts there.
func (r *roundTripper) client() (*api.Client, error) {
	return api.NewClient(&api.Config{
		Address: "consul", Scheme: "http", Token: "set by RoundTrip",
		HttpClient: &http.Client{
			Transport:     r,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
}

// RoundTrip implements http.RoundTripper. It reads answers to their end, so that one that breaks off is a
// failure of the host too, and makes errors of those that are none of the protocol.
func (r *roundTripper) RoundTrip(q *http.Request) (*http.Response, error) {
	ctx := q.Context()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	host := r.hosts.Current()
	resp, text, err := r.send(r.address(q.Clone(ctx), host))
	if err != nil {
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			r.hosts.Leave(host)
			r.faulty.Failed(host, r.isHostFault(err))
		}
		if !r.spoken.Load() {
			err = backendurl.Opening(err, r.cfg.tls != nil, "a Consul")
		}
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	r.spoken.Store(true)
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNotFound, http.StatusConflict:
		r.faulty.Served()
		return resp, nil
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		r.hosts.Leave(host) // it answers, and reaches no leader perhaps
	}
	_ = resp.Body.Close()
	err = &statusError{host: host, code: resp.StatusCode, text: httplimit.Brief(strings.TrimSpace(string(text)))}
	if r.isHostFault(err) {
		r.hosts.Leave(host)
	}
	r.faulty.Failed(host, r.isHostFault(err))
	return nil, err
}

// send sends a request and reads the answer. The body that it returns needs no connection.
func (r *roundTripper) send(q *http.Request) (*http.Response, []byte, error) {
	resp, err := r.transport.RoundTrip(q)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusConflict) {
		err = httplimit.Weigh(text)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, nil, err
	}
	resp.Body = &held{bytes.NewReader(text), resp.Body}
	return resp, text, nil
}

// held is an answer that was read. What it was read from is closed when it is.
type held struct {
	io.Reader
	io.Closer
}

// address puts into a request where it goes, for whom, and to which part of the store.
func (r *roundTripper) address(q *http.Request, host string) *http.Request {
	q.URL.Scheme, q.URL.Host, q.Host = "http", host, host
	if r.cfg.tls != nil {
		q.URL.Scheme = "https"
	}
	params := q.URL.Query()
	for name, value := range map[string]string{"dc": r.cfg.dc, "ns": r.cfg.namespace, "partition": r.cfg.partition} {
		params.Del(name)
		if value != "" {
			params.Set(name, value)
		}
	}
	q.URL.RawQuery = params.Encode()
	if params.Has("index") {
		// net/http repeats a GET that it can repeat on another connection. A watch wants to hear that its own broke,
		// because the server that it finds next may count anew.
		q.Body, q.GetBody = io.NopCloser(strings.NewReader("")), nil
	}
	q.Header.Del("X-Consul-Token")
	r.mu.Lock()
	defer r.mu.Unlock()
	if token := cmp.Or(r.cfg.url.Login.Password(), r.token); token != "" {
		q.Header.Set("X-Consul-Token", token)
	}
	return q
}

// rotate reads the token file again after a refusal, and says whether the next request has another token than the
// refused one may have had.
func (r *roundTripper) rotate() bool {
	if r.cfg.tokenFile == "" {
		return false
	}
	token, err := readToken(r.cfg.tokenFile)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && token != r.token {
		r.token, r.rotated = token, time.Now()
	}
	return time.Since(r.rotated) < requestTimeout
}
