package api_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

// TestSpoken: whether a reply that is none of Kubernetes' may be one that was cut.
func TestSpoken(t *testing.T) {
	t.Parallel()
	replies := make(chan string, 1)
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, <-replies) })
	c := client(t, f.URL, nil)
	for _, reply := range []struct {
		text   string
		spoken bool
	}{{"<html>", false}, {"{}", false}, {lease, true}, {"{", true}} {
		replies <- reply.text
		_, err := c.Get(t.Context(), "n")
		p, ok := errors.AsType[*api.ProtocolError](err)
		if ok == (reply.text == lease) || ok && p.Spoken != reply.spoken {
			t.Errorf("%s: %v (%+v)", reply.text, err, p)
		}
	}
}
