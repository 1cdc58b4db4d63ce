// Package httpfence refuses HTTP requests of a run that has been overtaken: a Handler in front of a service, and a Transport
// and a Resource for the run, which send its token as the header Fencing-Token.
//
// The Handler keeps the highest token of each resource. A request with a lower one gets 409 Conflict and never reaches the
// service. The check and the effect are one step as long as the effect is over when the service's handler returns: requests of
// a newer run wait until those of older ones have returned. It cannot help where the effect outlives the handler: work that is
// queued, a goroutine, a handler below http.TimeoutHandler, a request that is passed on and whose connection breaks. Where the
// effect is a transaction of a database, check the token in the transaction (package sqlfence), and not here.
//
// A token is no proof of who sends it: whoever may write may also send a high one.
package httpfence

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
)

// Header carries the token of a request, in decimal digits. In a response it is the highest token of the resource: from then
// on nothing of a lower one takes effect. A response without it comes from a server that does not fence, or that could not.
const Header = "Fencing-Token"

// Options are those of a Handler. The zero value makes one resource of all that the handler serves, and forgets its highest
// token when the process ends.
type Options struct {
	// Resource names what a request is about. Tokens are compared within a resource only. nil: everything is one resource.
	Resource func(*http.Request) string
	// Keep is where the highest tokens are kept; nil: a Memory of this handler's own.
	Keep Keeper
	// Refused is told of each request that the handler has answered itself, and why: a *fence.StaleError if its run has been
	// overtaken, a *KeepError if the fence could not be raised. It may be called by several goroutines at once. nil: nobody wants to know.
	Refused func(r *http.Request, err error)
}

// Handler returns a handler that lets requests through to next in the order of their tokens.
//
// A request with a Fencing-Token raises the fence of its resource, whatever its method is: the highest token is kept before
// next is called, and from then on requests with a lower one get 409. It waits until next has returned from all requests with a
// lower token that may change something, and then runs beside those with its own. The waiting has no limit but the request's
// context, after which the answer is 503; net/http ends the context of a request with a body only once the body has been read. So
// next must not hang for ever, which a WebSocket does as long as it is open.
//
// GET, HEAD and OPTIONS are safe (RFC 9110, section 9.2.1): what they do must do no harm to a newer run. Nobody waits for them,
// and without a token they pass unfenced; anything else gets 428 then. So does a GET that goes on in another protocol, such as a
// WebSocket: see MayChange. A token that is no number, comes twice, or is
// more than a day ahead of the clock (fence.CheckToken), gets 400; where the highest token cannot be kept, the
// answer is 503. next is called with the ResponseWriter as it is, and never sees the offer of a client to go on in HTTP/2.
//
// The handler is right only as long as it is alone: a second one for the same resource, in this or another process, does not
// know which requests are inside the first.
func Handler(next http.Handler, o Options) http.Handler {
	g := &guard{next: next, resource: o.Resource, keep: o.Keep, refused: o.Refused, lines: lines{of: map[string]*line{}}}
	if g.resource == nil {
		g.resource = func(*http.Request) string { return "default" }
	}
	if g.keep == nil {
		g.keep = new(Memory)
	}
	if g.refused == nil {
		g.refused = func(*http.Request, error) {}
	}
	return g
}

// MayChange says whether a request may change something: all but GET, HEAD and OPTIONS, and those too where they ask for another
// protocol, as nobody knows what will be said there. An offer of h2c is none: whoever does not know it goes on in HTTP/1.1.
func MayChange(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		others, _ := offered(r)
		return len(others) > 0
	}
	return true
}

// offered returns the protocols in which a request may go on, and whether HTTP/2 is one more.
func offered(r *http.Request) (others []string, h2c bool) {
	for protocol := range strings.SplitSeq(strings.Join(r.Header.Values("Upgrade"), ","), ",") {
		switch protocol = strings.TrimSpace(protocol); {
		case strings.EqualFold(protocol, "h2c"):
			h2c = true
		case protocol != "":
			others = append(others, protocol)
		}
	}
	return others, h2c
}

// withoutH2C takes the offer of HTTP/2 away: on such a connection nothing would come through the fence any more.
func withoutH2C(r *http.Request) *http.Request {
	others, h2c := offered(r)
	if !h2c {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del("Http2-Settings")
	r.Header.Del("Upgrade")
	if len(others) > 0 {
		r.Header.Set("Upgrade", strings.Join(others, ", "))
	}
	return r
}

var errNoToken = errors.New("a request that may change something needs the header " + Header)

// requestToken returns the token of a request; errNoToken: it has none.
func requestToken(r *http.Request) (int64, error) {
	switch values := r.Header.Values(Header); len(values) {
	case 0:
		return 0, errNoToken
	case 1:
		token, err := fence.ParseToken(values[0])
		if err == nil {
			err = fence.CheckToken(token)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", Header, err)
		}
		return token, nil
	default:
		return 0, fmt.Errorf("%s: it is given %d times", Header, len(values))
	}
}

// Highest is the highest token that the headers of a response tell, 0 if none: a proxy and the service behind it may both fence.
func Highest(h http.Header) int64 {
	var highest int64
	for _, text := range h.Values(Header) {
		if token, err := fence.ParseToken(text); err == nil {
			highest = max(highest, token)
		}
	}
	return highest
}
