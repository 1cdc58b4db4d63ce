// Package fenceproxy is the proxy of `leaderrun fence http`, in front of a service that does not know tokens, here called UPSTREAM. It passes
// on the requests of the latest run, and refuses those of runs that were overtaken. The request of a newer run waits until UPSTREAM has
// answered those of older ones that may change something.
package fenceproxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/internal/panics"
)

const (
	headerPatience = 10 * time.Second // for the headers of a request, and for TLS with UPSTREAM
	drainPatience  = 10 * time.Second // beyond that for UPSTREAM, for the requests under way when the proxy is told to end
	idlePatience   = 2 * time.Minute  // for a connection that nobody uses
)

// Options say what a proxy is for.
type Options struct {
	Resource string
	Keep     httpfence.Keeper
	Upstream *url.URL
	Patience time.Duration // for UPSTREAM, and for a client that stands still
	Log      slog.Handler  // of what package net/http has to say

	// Tell tells what became of a request that was not passed on, or not answered.
	Tell func(level slog.Level, event string, r *http.Request, err error, token int64)
}

// Proxy is what a request goes through.
type Proxy struct {
	http.Handler

	onward *forwarder
	log    slog.Handler
}

// New makes a proxy. It connects to nobody yet.
func New(o Options) *Proxy {
	onward := newForwarder(o.Upstream, o.Patience, o.Log, func(r *http.Request, err error) {
		event := "upstream_failed"
		if errors.Is(err, errBrokenOff) {
			event = "client_failed"
		}
		o.Tell(slog.LevelInfo, event, r, err, 0)
	})
	fenced := httpfence.Handler(onward, httpfence.Options{
		Resource: func(*http.Request) string { return o.Resource },
		Keep:     o.Keep,
		Refused: func(r *http.Request, err error) {
			if _, ok := errors.AsType[*httpfence.KeepError](err); ok && r.Context().Err() == nil {
				o.Tell(slog.LevelWarn, "fence_failed", r, err, 0)
				return
			}
			token := int64(0)
			if stale, ok := errors.AsType[*fence.StaleError](err); ok {
				token = stale.Token
			}
			o.Tell(slog.LevelInfo, "request_refused", r, err, token)
		},
	})
	return &Proxy{onward: onward, log: o.Log, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := staysBelow(r); err != nil { // before it raises a fence
			http.Error(w, err.Error(), http.StatusBadRequest)
			o.Tell(slog.LevelInfo, "request_refused", r, err, 0)
			return
		}
		fenced.ServeHTTP(w, r)
	})}
}

// ParseUpstream reads the URL of a service. All but scheme, host and path would have to be sent along with other people's
// requests.
func ParseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("it is no URL of a service")
	case u.User != nil:
		return nil, errors.New("it has a user: credentials are the client's")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("it ends with more than a path")
	}
	return u, nil
}

var (
	errClimbs = errors.New(`a path with ".." in it, or encoded many times over, is not passed on`)
	errOpaque = errors.New(`a request for what is no path ("x:a", "*" but for OPTIONS) is not passed on`)
)

// staysBelow refuses what may lead to what is not below the path of UPSTREAM. An opaque URL would be sent as it came, without that path.
func staysBelow(r *http.Request) error {
	switch {
	case r.URL.Opaque != "" || r.URL.Path == "*" && r.Method != http.MethodOptions:
		return errOpaque
	case climbs(r.URL.Path):
		return errClimbs
	}
	return nil
}

// climbs says whether some service would take a path for one above it, and so for what is not below the path of UPSTREAM: one with a
// segment "..", also where it is encoded once more, ends with a backslash, or has something after it that ends a path. What is encoded so often that nobody
// means it counts as one: to decode it to its end takes a time that grows with the square of its length.
func climbs(path string) bool {
	const passes = 4
	for range passes {
		for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
			segment = strings.TrimSpace(segment)
			if end := strings.IndexFunc(segment, endsPath); end >= 0 {
				segment = strings.TrimSpace(segment[:end])
			}
			if segment == ".." {
				return true
			}
		}
		decoded, err := url.PathUnescape(path)
		if err != nil || decoded == path {
			return false
		}
		path = decoded
	}
	return true
}

// endsPath says whether some service would take what it is decoded to for the end of a path: of its parameters, its query, its text in C.
func endsPath(c rune) bool { return c < ' ' || strings.ContainsRune(";?#", c) }

// Server serves the proxy.
func (p *Proxy) Server() *http.Server {
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience,

		MaxHeaderBytes:               headersLimit,
		DisableGeneralOptionsHandler: true, // nothing is answered past the fence
		ErrorLog:                     slog.NewLogLogger(p.log, slog.LevelInfo),
	}
	server.RegisterOnShutdown(p.onward.hangUp)
	return server
}

// Drain lets the requests under way end, and says whether they have. Connections that have become something else, such as
// WebSockets, are brought to an end. A second signal ends the patience.
func (p *Proxy) Drain(server *http.Server, asked <-chan syscall.Signal) bool {
	ctx, cancel := context.WithTimeout(context.Background(), p.onward.patience+drainPatience)
	defer cancel()
	panics.Go(func() {
		select {
		case <-asked:
			cancel()
		case <-ctx.Done():
		}
	})
	if server.Shutdown(ctx) == nil && p.onward.idle(ctx) {
		return true
	}
	_ = server.Close()
	return false
}
