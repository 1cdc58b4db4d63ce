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
	"strconv"

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
// lower token, and then runs beside those with its own. The waiting has no limit but the request's context, after which the
// answer is 503; net/http ends the context of a request with a body only once the body has been read. So next must not hang for
// ever, which a WebSocket does as long as it is open.
//
// Without a token GET, HEAD and OPTIONS pass unfenced, and anything else gets 428. So does a GET that asks for another
// protocol, such as a WebSocket: nobody knows what will be written there. A token that is no number, or comes twice, gets 400;
// where the highest token cannot be kept, the answer is 503. next is called with the ResponseWriter as it is.
//
// The handler is right only as long as it is alone: a second one for the same resource, in this or another process, does not
// know which requests are inside the first.
func Handler(next http.Handler, o Options) http.Handler {
	g := &guard{next: next, resource: o.Resource, keep: o.Keep, refused: o.Refused, lines: map[string]*line{}}
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

var (
	errNoToken = errors.New("a request that may change something needs the header " + Header)
	errWaited  = errors.New("the request of an earlier run is still under way")
)

// ServeHTTP gives back the place of a request however next ends.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := requestToken(r)
	switch {
	case errors.Is(err, errNoToken) && isSafe(r):
		g.next.ServeHTTP(w, r)
		return
	case errors.Is(err, errNoToken):
		g.refuse(w, r, http.StatusPreconditionRequired, err)
		return
	case err != nil:
		g.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	l := g.join(g.resource(r))
	defer g.part(l)
	if err := g.enter(r.Context(), l, token); err != nil {
		g.turnAway(w, r, err)
		return
	}
	defer g.leave(l)
	w.Header().Set(Header, strconv.FormatInt(token, 10))
	g.next.ServeHTTP(w, r)
}

// requestToken returns the token of a request; errNoToken: it has none.
func requestToken(r *http.Request) (int64, error) {
	switch values := r.Header.Values(Header); len(values) {
	case 0:
		return 0, errNoToken
	case 1:
		token, err := fence.ParseToken(values[0])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", Header, err)
		}
		return token, nil
	default:
		return 0, fmt.Errorf("%s: it is given %d times", Header, len(values))
	}
}

// isSafe says whether a request changes nothing. One that goes on in another protocol may.
func isSafe(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return r.Header.Get("Upgrade") == ""
	}
	return false
}

// turnAway answers a request that was not let in.
func (g *guard) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusServiceUnavailable
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		w.Header().Set(Header, strconv.FormatInt(stale.Highest, 10))
		status = http.StatusConflict
	}
	g.refuse(w, r, status, err)
}

// refuse answers with one line. What went wrong where tokens are kept is nothing that a client should know.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	text := err.Error()
	if _, ok := errors.AsType[*KeepError](err); ok {
		text = "the fence cannot be raised"
	}
	http.Error(w, text, status)
	g.refused(r, err)
}
