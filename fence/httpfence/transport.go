package httpfence

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/leaderrun/leaderrun/fence"
)

// Transport sends the token of a run with every request, and makes a *fence.StaleError of the answer that the run has been
// overtaken; http.Client wraps it in a *url.Error. A 409 that is the service's own is left alone.
//
// It is for requests of a run that has raised the fence, and for one service: whatever it is used with, or redirected to, learns
// the token, which is no secret but raises the fence there. The client that Resource makes knows its place.
type Transport struct {
	Base http.RoundTripper // nil: http.DefaultTransport
	Run  fence.Run
}

// RoundTrip sends a copy of the request that has the token. One that the request has already stays.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token := t.Run.Token
	if text := r.Header.Get(Header); text != "" {
		token, _ = fence.ParseToken(text) // what is wrong with it says the server
	} else {
		r = r.Clone(r.Context())
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set(Header, strconv.FormatInt(token, 10))
	}
	response, err := cmp.Or(t.Base, http.DefaultTransport).RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusConflict {
		return response, err
	}
	highest := Highest(response.Header)
	if highest <= token {
		return response, nil
	}
	_ = response.Body.Close()
	return nil, &fence.StaleError{Resource: r.URL.Host, Token: token, Highest: highest}
}
