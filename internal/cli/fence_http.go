package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/fenceproxy"
	"github.com/leaderrun/leaderrun/internal/httplimit"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	upstreamPatience = time.Minute
	maxFenced        = 1000 // connections at a time; each may take a third of a MB
)

func fenceHTTPCommand() *command {
	return &command{
		name: "fence http", args: "UPSTREAM", brief: "pass HTTP requests on, but those of runs that were overtaken",
		about: `A proxy in front of a service that does not know tokens. Unlike the other kinds it is a daemon, and in no run. A
run sends its token as the header "Fencing-Token: $LEADERRUN_TOKEN" and begins with a HEAD, which raises the fence.
It gets 409 if it is stale. Whatever may change something needs the header (428), and so does a WebSocket. GET, HEAD
and OPTIONS only read: they pass without it, and nobody waits for them. Every answer to a token that is let in, or
refused with 409, has the header with the highest one. The request of a newer run waits until UPSTREAM has answered
those of older ones that may change something, for as long as its client does; the clients of older ones, and their
WebSockets, have --upstream-timeout to come to an end then. A path with ".." in it is refused (400). UPSTREAM is
asked in HTTP/1.1, and for the host that the client asked for. Headers may have 32 kB (431). Of more than 1000
connections at a time, but for WebSockets, the others wait.

What it cannot do. It only filters: where UPSTREAM breaks off, takes longer than --upstream-timeout or the proxy is
killed, nobody knows whether UPSTREAM still does what it was asked, and the next run is let in. It knows nothing of
what comes to UPSTREAM on another way, or of what UPSTREAM does after its answer. A GET that writes after all, or one
that UPSTREAM takes for something else (X-HTTP-Method-Override), passes unfenced. There must be one proxy for a
resource: a second one with the same --state ends with 78, and elsewhere two do not know of each other. A token is no
password: anybody may send a high one, up to a day ahead of the clock.

The highest token is on the disk before a request is passed on. SIGTERM lets the requests under way end, for 10s longer
than --upstream-timeout at most, and closes WebSockets; a second one does not wait. The exit code is 0 if all of them
have ended.`,
		examples: []exampleLine{
			{"whoever reaches port 8080 goes through the fence", "leaderrun fence http --listen localhost:8080 http://localhost:9000"},
			{"a name that stays when UPSTREAM moves", "leaderrun fence http --listen :8080 --resource invoices http://localhost:9000/api"},
		},
		options: append(fenceHTTPOptions(), commonOptions()...), run: runFenceHTTP,
	}
}

func fenceHTTPOptions() []option {
	return []option{
		{
			name: "listen", value: "ADDR", group: fenceGroup, example: "localhost:8080",
			help: "where requests come in, HOST:PORT or :PORT; 0.0.0.0 is IPv4 alone",
		},
		{
			name: "resource", value: "NAME", def: "host and port of UPSTREAM", group: fenceGroup, example: "invoices",
			help: "what is protected: all that goes through",
		},
		{
			name: "state", value: "DIR", check: by(parseDirectory), def: "/var/lib/leaderrun/fence, or the user's", group: fenceGroup,
			example: "/var/lib/leaderrun/fence",
			help:    "where the highest tokens are kept, which nobody else can write",
		},
		{
			name: "upstream-timeout", value: "D", def: "1m", check: by(duration.Positive), group: fenceGroup, example: "10m",
			help: "how long UPSTREAM may take until it answers, once it has the\nrequest. Then the client gets 504, and newer runs are let in. Also\nhow long a client may stand still, or go on once a newer run waits,\nand how long its request goes on after that, or after it has gone away",
		},
	}
}

func runFenceHTTP(c *call) (ExitStatus, error) {
	address := read(c.settings, "listen", parseText, "")
	name := read(c.settings, "resource", parseText, "")
	state := read(c.settings, "state", parseDirectory, "")
	patience := read(c.settings, "upstream-timeout", duration.Positive, upstreamPatience)
	if err := c.settings.err; err != nil {
		return ExitStatus{}, err
	}
	const form = "usage: leaderrun fence http --listen ADDR [options] UPSTREAM"
	switch len(c.args) {
	case 0:
		return ExitStatus{}, usage("UPSTREAM is missing", "", form)
	case 1:
	default:
		return ExitStatus{}, usage(quoteWord(c.args[1]), "there is one UPSTREAM", form)
	}
	upstream, err := fenceproxy.ParseUpstream(c.args[0])
	if err != nil {
		return ExitStatus{}, usage(quoteWord(c.args[0]), err.Error(), "write UPSTREAM like http://localhost:9000 or https://host/path")
	}
	if address == "" {
		return ExitStatus{}, usage("--listen is missing", "", "write it like --listen localhost:8080")
	}
	if name == "" {
		name = fenceproxy.HostPort(upstream)
	}
	keep, release, err := openTokens(state, name)
	if err != nil {
		return ExitStatus{}, err
	}
	defer release()
	listener, err := listenTCP(address)
	if err != nil {
		return ExitStatus{}, err
	}
	return c.serveFence(listener, fenceproxy.New(fenceproxy.Options{
		Resource: name, Keep: keep, Upstream: upstream, Patience: patience, Log: &spokenLog{console: c.console},
		Tell: func(level slog.Level, event string, r *http.Request, err error, token int64) {
			c.console.event(runner.Event{
				Name: event, Level: level, Token: token, Text: fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err),
				Fields: []slog.Attr{slog.String("resource", name)},
			})
		},
	}))
}

// openTokens opens the directory where tokens are kept, and looks at the one of the resource: what is wrong there is told at the
// start. As long as it is not released no other proxy can have the resource.
func openTokens(dir, name string) (keep *httpfence.Directory, release func(), err error) {
	if dir == "" {
		parent, err := stateDirectory()
		if err != nil {
			return nil, nil, err
		}
		dir = filepath.Join(parent, "fence")
	}
	keep, err = httpfence.OpenDirectory(dir)
	if err == nil {
		_, err = keep.Load(context.Background(), name)
	}
	if err == nil {
		release, err = keep.Own(name)
	}
	if err != nil {
		hint := hintOf(err)
		if hint == "" {
			hint = "--state names another directory"
		}
		return nil, nil, &fault{code: codeConfiguration, what: "--state " + dir, why: err.Error(), hint: hint, err: err}
	}
	return keep, release, nil
}

// stateDirectory is where the backend `file:` keeps its records unless a directory is named.
func stateDirectory() (string, error) {
	const remedy = "name a directory that can be written: --state DIR"
	store, err := all.Open("file:")
	if err != nil {
		return "", &fault{code: codeConfiguration, what: "no place for the highest tokens", why: err.Error(), hint: remedy, err: err}
	}
	defer store.Close()
	u, err := url.Parse(store.Redacted())
	if err != nil {
		return "", err
	}
	return u.Path, nil
}

// serveFence serves until it is told to end.
func (c *call) serveFence(listener net.Listener, p *fenceproxy.Proxy) (ExitStatus, error) {
	server := p.Server()
	over := make(chan error, 1)
	panics.Go(func() { over <- serveSome(server, listener, maxFenced) })
	asked := c.ending()
	notify := newNotifier(c.settings.lookup, readyStandby)
	text := "listening on " + listener.Addr().String()
	c.console.event(runner.Event{Name: "listening", Level: slog.LevelInfo, Text: text})
	notify.isReady(text)
	select {
	case err := <-over:
		notify.close(ExitStatus{})
		return ExitStatus{}, &fault{code: codeInternal, what: "--listen", why: err.Error(), err: err}
	case sig := <-asked:
		notify.isStopping("received " + sig.String() + ": waiting for the requests under way")
		end := ExitStatus{}
		if !p.Drain(server, asked) {
			c.console.warn("requests were cut off: UPSTREAM may still do what they asked for", "")
			end = bySignal(sig)
		}
		notify.close(end)
		return end, nil
	}
}

// ending returns the signals that ask the program to end.
func (c *call) ending() <-chan syscall.Signal {
	asked := make(chan syscall.Signal)
	panics.Go(func() {
		for sig := range c.signals {
			if supervise.EndsRun(sig) {
				asked <- sig
			}
		}
	})
	return asked
}

// spokenLog takes what package net/http has to say, and other libraries. It says nothing of importance that is not told by the requests themselves.
type spokenLog struct{ console *console }

func (*spokenLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *spokenLog) Handle(_ context.Context, r slog.Record) error {
	l.console.event(runner.Event{Name: "http", Level: r.Level, Text: httplimit.Brief(strings.TrimSpace(r.Message))})
	return nil
}

func (l *spokenLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *spokenLog) WithGroup(string) slog.Handler      { return l }
