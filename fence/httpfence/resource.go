package httpfence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// Resource is a service that fences, as a run sees it.
type Resource struct {
	client *http.Client
	url    string
}

var _ fence.Resource[*http.Client] = (*Resource)(nil)

// NewResource returns the service at a URL, which is http or https and one that may be asked with HEAD. client is what it is
// asked with, and what the client of a run is made of; nil: http.DefaultClient.
func NewResource(client *http.Client, url string) *Resource {
	return &Resource{client: cmp.Or(client, http.DefaultClient), url: url}
}

// Raise asks for the URL with HEAD and the token of the run. The service waits with its answer until the requests of earlier
// runs are over; how long, says ctx. The client that Raise returns sends the token with every request to the URL's host. On
// others nobody has raised a fence: there it only reads, without the token.
//
// Beside a *fence.StaleError there is a *fence.SetupError where the service does not fence, or wants other credentials.
func (x *Resource) Raise(ctx context.Context, r fence.Run) (*http.Client, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, x.url, http.NoBody)
	if err == nil && (request.URL.Host == "" || request.URL.Scheme != "http" && request.URL.Scheme != "https") {
		err = fmt.Errorf("%q is no URL of a service", x.url)
	}
	if err != nil {
		return nil, remedy.Misconfigured("write it like http://host:8080/path", "%w", err)
	}
	request.Header.Set("Cache-Control", "no-cache") // the service itself must see it
	fenced := *x.client
	base := cmp.Or(x.client.Transport, http.DefaultTransport)
	fenced.Transport = &narrow{home: request.URL, fenced: &Transport{Base: base, Run: r}, others: base}
	asking := fenced
	asking.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := asking.Do(request)
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		return nil, stale
	}
	if err != nil {
		return nil, fmt.Errorf("raise the fence: %w", err)
	}
	_ = response.Body.Close()
	if err := raised(request.URL, response, r); err != nil {
		return nil, err
	}
	return &fenced, nil
}

// raised says whether a service has raised the fence. Its header counts, and not what the service itself thinks of a HEAD.
func raised(at *url.URL, response *http.Response, r fence.Run) error {
	highest, status := Highest(response.Header), response.StatusCode
	where := at.Redacted()
	switch {
	case highest == r.Token:
		return nil
	case highest > r.Token:
		return &fence.StaleError{Resource: at.Host, Token: r.Token, Highest: highest}
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		return fmt.Errorf("raise the fence: HEAD %s: %s", where, response.Status)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return remedy.Denied("whoever raises the fence needs the credentials of a writer", "HEAD %s: %s", where, response.Status)
	}
	hint := "put `leaderrun fence http` or httpfence.Handler in front of it"
	if to, err := response.Location(); err == nil {
		hint = "it redirects: name the place itself, " + to.Redacted()
	}
	return remedy.Misconfigured(hint, "HEAD %s: %s, without %s: the service does not fence", where, response.Status, Header)
}

// narrow sends the token to one place, and lets requests that may change something go nowhere else.
type narrow struct {
	home           *url.URL
	fenced, others http.RoundTripper
}

func (n *narrow) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case samePlace(r.URL, n.home):
		return n.fenced.RoundTrip(r)
	case MayChange(r):
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: the fence was raised at %s, and not there", r.Method, r.URL.Redacted(), n.home.Host)
	case r.Header.Get(Header) != "": // tokens of two jobs say nothing about each other
		r = r.Clone(r.Context())
		r.Header.Del(Header)
	}
	return n.others.RoundTrip(r)
}

// samePlace compares scheme, host and port, however they are written.
func samePlace(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}
