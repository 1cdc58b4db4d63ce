package httpfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/leaderrun/leaderrun/fence"
)

// guard is what Handler returns.
type guard struct {
	next     http.Handler
	resource func(*http.Request) string
	keep     Keeper
	refused  func(*http.Request, error)
	lines    lines
}

// ServeHTTP gives back the place of a request however next ends.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = withoutH2C(r)
	token, err := requestToken(r)
	switch {
	case errors.Is(err, errNoToken) && !MayChange(r):
		g.next.ServeHTTP(w, r)
		return
	case errors.Is(err, errNoToken):
		g.refuse(w, r, http.StatusPreconditionRequired, err)
		return
	case err != nil:
		g.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	w.Header().Add("Vary", Header) // no cache may give the answer to another run
	l := g.lines.join(g.resource(r))
	defer g.lines.part(l)
	newer, err := g.admit(r.Context(), l, token)
	if err != nil {
		g.turnAway(w, r, err)
		return
	}
	if MayChange(r) {
		defer l.leave()
		r = r.WithContext(context.WithValue(r.Context(), newerKey{}, newer))
	} else {
		l.leave() // a reader harms no newer run, and must not hold it up
	}
	w.Header().Set(Header, strconv.FormatInt(token, 10))
	g.next.ServeHTTP(w, r)
}

// newerKey is the key of what Overtaken returns.
type newerKey struct{}

// Overtaken returns a channel that is closed when a run with a higher token has raised the fence and waits for a request that a
// Handler has let in. It is nil for requests that nobody waits for. The newer run waits for as long as the request takes: to give
// up early is up to who serves it, where what was done of it until then is no harm.
func Overtaken(r *http.Request) <-chan struct{} {
	newer, _ := r.Context().Value(newerKey{}).(<-chan struct{})
	return newer
}

// admit raises the fence and returns when next may be called. l.leave must follow, unless there is an error. That the token is
// kept before next is called makes it hold after a restart.
func (g *guard) admit(ctx context.Context, l *line, token int64) (newer <-chan struct{}, err error) {
	if err := l.check(token); err != nil {
		return nil, err
	}
	highest, err := g.keep.Raise(ctx, l.resource, token)
	if err == nil && highest < token {
		err = fmt.Errorf("token %d was to be kept, and the keeper has %d", token, highest)
	}
	if err != nil {
		return nil, &KeepError{Resource: l.resource, Err: err}
	}
	return l.enter(ctx, token, highest)
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
