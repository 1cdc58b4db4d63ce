// Package api speaks what leaderrun needs of the Kubernetes API: Leases of coordination.k8s.io/v1, over HTTP/1.1 and
// JSON.
//
// One call is one request. There is one exception: a request that was refused for its credential is sent once more with another
// credential, because the server checks that before it does anything else. Nothing is cached, and nothing goes on after a call. The
// package uses HTTP/1.1, in which a request has a connection to itself: a request that gets no answer does not delay others, and its
// connection is closed when its context ends.
//
// A proxy that the environment names is not used.
package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 15 * time.Second // of a request whose caller set none
	aliveEvery     = 5 * time.Second  // probes of TCP: a watch is silent for minutes
	aliveProbes    = 3
	idleConns      = 2 // a renewal and a claim

	// Manager is what the server calls us where it keeps who wrote what.
	Manager = "leaderrun"

	group = "/apis/coordination.k8s.io/v1/namespaces/"
)

// Config says which server is asked, and as whom.
type Config struct {
	Server      string      // http:// or https://, HOST:PORT, and a path perhaps
	TLS         *tls.Config // for https; a certificate of Credentials comes in addition
	Namespace   string      // of all Leases
	Credentials Credentials // nil: nothing
}

// Client asks one server. It is safe for concurrent use. Every method returns when its context ends.
type Client struct {
	cfg       Config
	host      string // for errors
	transport *httplimit.Transport
	spoken    atomic.Bool // a reply was one of Kubernetes
	door      door
}

// New returns a client. It asks nobody.
func New(cfg Config) *Client {
	if cfg.Credentials == nil {
		cfg.Credentials = Fixed{}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: aliveEvery, Interval: aliveEvery, Count: aliveProbes,
	}}
	c := &Client{cfg: cfg, host: cfg.Server, transport: httplimit.New(&http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute,
	})}
	if u, err := url.Parse(cfg.Server); err == nil && u.Host != "" {
		c.host = u.Host
	}
	if cfg.TLS != nil {
		c.transport.TLSClientConfig = cfg.TLS.Clone()
		c.transport.TLSClientConfig.GetClientCertificate = c.certificate
	}
	return c
}

// certificate answers a server that asks for one.
func (c *Client) certificate(q *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	credential, err := c.cfg.Credentials.Get(q.Context())
	if err != nil {
		return nil, err
	}
	if credential.Certificate == nil {
		return new(tls.Certificate), nil // none is sent
	}
	return credential.Certificate, nil
}

// RotateEndpoint makes the next request go over a connection that is not there yet.
func (c *Client) RotateEndpoint() { c.transport.CloseIdleConnections() }

// Close closes the connections that no request uses, and the credentials, where there is something to close. Requests end
// with their contexts.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	if closer, ok := c.cfg.Credentials.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// question is one request.
type question struct {
	method, path string
	params       url.Values
	body         any  // nil: none
	anonymous    bool // no token is shown
}

// ask sends a request and reads the reply into an object; nil: whatever it is. It returns the time of the server's clock, in whole
// seconds; zero: it does not say. Replies that report no success are an *Error.
func (c *Client) ask(ctx context.Context, q question, to any) (date time.Time, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	reply, err := c.send(ctx, q)
	if err != nil {
		return date, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode/100 != 2 {
		return date, c.refused(reply)
	}
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return date, c.failed(err)
	}
	date, _ = http.ParseTime(reply.Header.Get("Date"))
	if to != nil {
		err = decode(text, to)
	}
	switch {
	case errors.Is(err, httplimit.ErrTooLarge):
		return date, c.failed(err)
	case err != nil:
		return date, c.foreign(err)
	}
	return date, nil
}

// decode reads JSON into an object.
func decode(text []byte, to any) error {
	if err := httplimit.Weigh(text); err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// send sends a request, and notes whether the server lets us in.
func (c *Client) send(ctx context.Context, q question) (*http.Response, error) {
	if q.anonymous {
		return c.sendAs(ctx, q, Credential{})
	}
	reply, err := c.sendAsUs(ctx, q)
	if err == nil {
		c.door.saw(reply.StatusCode)
	}
	return reply, err
}

// sendAsUs sends a request, and once more if the server refuses its credential and there is another by now.
func (c *Client) sendAsUs(ctx context.Context, q question) (*http.Response, error) {
	credential, err := c.cfg.Credentials.Get(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := c.sendAs(ctx, q, credential)
	if err != nil || reply.StatusCode != http.StatusUnauthorized {
		return reply, err
	}
	c.cfg.Credentials.Refused(credential)
	another, err := c.cfg.Credentials.Get(ctx)
	if err != nil || another == credential {
		return reply, nil //nolint:nilerr // the refusal is the answer
	}
	_ = reply.Body.Close()
	c.transport.CloseIdleConnections() // they were opened with the old certificate
	return c.sendAs(ctx, q, another)
}

func (c *Client) sendAs(ctx context.Context, q question, credential Credential) (*http.Response, error) {
	// net/http would repeat a request without a body by itself. This is one that it cannot repeat.
	var body io.Reader = struct{ io.Reader }{strings.NewReader("")}
	var length int64
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, err
		}
		body, length = struct{ io.Reader }{bytes.NewReader(text)}, int64(len(text))
	}
	address := strings.TrimSuffix(c.cfg.Server, "/") + q.path
	if len(q.params) > 0 {
		address += "?" + q.params.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, err
	}
	r.ContentLength = length
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", Manager)
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if credential.Token != "" {
		r.Header.Set("Authorization", "Bearer "+credential.Token)
	}
	reply, err := c.transport.RoundTrip(r)
	if err != nil && strings.Contains(err.Error(), "malformed HTTP") { // net/http has no type for it
		return nil, c.foreign(err)
	}
	if err != nil {
		return nil, c.failed(err)
	}
	return reply, nil
}

func (c *Client) failed(err error) error {
	return fmt.Errorf("%s: %w", c.host, httplimit.BriefError(err))
}
