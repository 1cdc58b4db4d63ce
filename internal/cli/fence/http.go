package fence

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/fenceproxy"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	upstreamPatience = time.Minute
	maxFenced        = 1000 // connections at a time; each may take a third of a MB
)

func fenceHTTPCommand() *cli.Command {
	return &cli.Command{
		Name: "fence http", Args: "UPSTREAM", Brief: "pass HTTP requests on, but those of runs that were overtaken",
		About: `A proxy in front of a service that does not know tokens. Unlike the other kinds it is a daemon, and in no run. A
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
		Examples: []cli.ExampleLine{
			{Does: "whoever reaches port 8080 goes through the fence", Line: "leaderrun fence http --listen localhost:8080 http://localhost:9000"},
			{Does: "a name that stays when UPSTREAM moves", Line: "leaderrun fence http --listen :8080 --resource invoices http://localhost:9000/api"},
		},
		Options: append(fenceHTTPOptions(), cli.CommonOptions()...), Run: runFenceHTTP,
	}
}

func fenceHTTPOptions() []cli.Option {
	return []cli.Option{
		{
			Name: "listen", Value: "ADDR", Group: fenceGroup, Example: "localhost:8080",
			Help: "where requests come in, HOST:PORT or :PORT; 0.0.0.0 is IPv4 alone",
		},
		{
			Name: "resource", Value: "NAME", Def: "host and port of UPSTREAM", Group: fenceGroup, Example: "invoices",
			Help: "what is protected: all that goes through",
		},
		{
			Name: "state", Value: "DIR", Check: cli.By(launch.ParseDirectory), Def: "/var/lib/leaderrun/fence, or the user's", Group: fenceGroup,
			Example: "/var/lib/leaderrun/fence",
			Help:    "where the highest tokens are kept, which nobody else can write",
		},
		{
			Name: "upstream-timeout", Value: "D", Def: "1m", Check: cli.By(duration.Positive), Group: fenceGroup, Example: "10m",
			Help: "how long UPSTREAM may take until it answers, once it has the\nrequest. Then the client gets 504, and newer runs are let in. Also\nhow long a client may stand still, or go on once a newer run waits,\nand how long its request goes on after that, or after it has gone away",
		},
	}
}

func runFenceHTTP(c *cli.Call) (cli.ExitStatus, error) {
	address := cli.Read(c.Settings, "listen", cli.ParseText, "")
	name := cli.Read(c.Settings, "resource", cli.ParseText, "")
	state := cli.Read(c.Settings, "state", launch.ParseDirectory, "")
	patience := cli.Read(c.Settings, "upstream-timeout", duration.Positive, upstreamPatience)
	if err := c.Settings.Err; err != nil {
		return cli.ExitStatus{}, err
	}
	const form = "usage: leaderrun fence http --listen ADDR [options] UPSTREAM"
	switch len(c.Args) {
	case 0:
		return cli.ExitStatus{}, cli.Usage("UPSTREAM is missing", "", form)
	case 1:
	default:
		return cli.ExitStatus{}, cli.Usage(launch.QuoteWord(c.Args[1]), "there is one UPSTREAM", form)
	}
	upstream, err := fenceproxy.ParseUpstream(c.Args[0])
	if err != nil {
		return cli.ExitStatus{}, cli.Usage(launch.QuoteWord(c.Args[0]), err.Error(), "write UPSTREAM like http://localhost:9000 or https://host/path")
	}
	if address == "" {
		return cli.ExitStatus{}, cli.Usage("--listen is missing", "", "write it like --listen localhost:8080")
	}
	if name == "" {
		name = fenceproxy.HostPort(upstream)
	}
	keep, release, err := openTokens(state, name)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	defer release()
	listener, err := launch.ListenTCP(address)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	return serveFence(c, listener, fenceproxy.New(fenceproxy.Options{
		Resource: name, Keep: keep, Upstream: upstream, Patience: patience, Log: &cli.SpokenLog{Console: c.Console},
		Tell: func(level slog.Level, event string, r *http.Request, err error, token int64) {
			c.Console.Event(runner.Event{
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
		hint := cli.HintOf(err)
		if hint == "" {
			hint = "--state names another directory"
		}
		return nil, nil, &cli.Fault{Code: cli.CodeConfiguration, What: "--state " + dir, Why: err.Error(), Hint: hint, Err: err}
	}
	return keep, release, nil
}

// stateDirectory is where the backend `file:` keeps its records unless a directory is named.
func stateDirectory() (string, error) {
	const remedy = "name a directory that can be written: --state DIR"
	store, err := all.Open("file:")
	if err != nil {
		return "", &cli.Fault{Code: cli.CodeConfiguration, What: "no place for the highest tokens", Why: err.Error(), Hint: remedy, Err: err}
	}
	defer store.Close()
	u, err := url.Parse(store.Redacted())
	if err != nil {
		return "", err
	}
	return u.Path, nil
}

// serveFence serves until it is told to end.
func serveFence(c *cli.Call, listener net.Listener, p *fenceproxy.Proxy) (cli.ExitStatus, error) {
	server := p.Server()
	over := make(chan error, 1)
	panics.Go(func() { over <- launch.ServeSome(server, listener, maxFenced) })
	asked := ending(c)
	notify := launch.NewNotifier(c.Settings.Lookup, launch.ReadyStandby)
	text := "listening on " + listener.Addr().String()
	c.Console.Event(runner.Event{Name: "listening", Level: slog.LevelInfo, Text: text})
	notify.IsReady(text)
	select {
	case err := <-over:
		notify.Close(cli.ExitStatus{})
		return cli.ExitStatus{}, &cli.Fault{Code: cli.CodeInternal, What: "--listen", Why: err.Error(), Err: err}
	case sig := <-asked:
		notify.IsStopping("received " + sig.String() + ": waiting for the requests under way")
		end := cli.ExitStatus{}
		if !p.Drain(server, asked) {
			c.Console.Warn("requests were cut off: UPSTREAM may still do what they asked for", "")
			end = cli.BySignal(sig)
		}
		notify.Close(end)
		return end, nil
	}
}

// ending returns the signals that ask the program to end.
func ending(c *cli.Call) <-chan syscall.Signal {
	asked := make(chan syscall.Signal)
	panics.Go(func() {
		for sig := range c.Signals {
			if supervise.EndsRun(sig) {
				asked <- sig
			}
		}
	})
	return asked
}
