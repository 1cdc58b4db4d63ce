package fenceproxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/httpfence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// However two runs meet, also while the older one's request is in the service, in the middle of its write.
func TestFenceHTTPSuite(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	var mu sync.Mutex
	value, gates := "", map[string]*fencetest.Gate{}
	set := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		value = text
	}
	p := newProxied(t, time.Minute, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPut || err != nil {
			return
		}
		mu.Lock()
		gate := gates[r.Header.Get(httpfence.Header)]
		mu.Unlock()
		gate.Step("in the service")
		set(string(body[:len(body)/2]))
		gate.Step("in the middle of its write")
		set(string(body))
	})
	fencetest.Run(t, fencetest.Subject{
		Unshielded: true, // the handler writes in two halves, and GET without a token passes unfenced
		Read:       func(testing.TB) string { mu.Lock(); defer mu.Unlock(); return value },
		Writer: func(_ testing.TB, r fence.Run, gate *fencetest.Gate) fencetest.Writer {
			mu.Lock()
			gates[fmt.Sprint(r.Token)] = gate
			mu.Unlock()
			transport := &http.Transport{DialContext: gate.Dialer()}
			var client *http.Client
			return fencetest.Writer{
				Raise: func(ctx context.Context) (err error) {
					client, err = httpfence.NewResource(&http.Client{Transport: transport}, p.URL).Raise(ctx, r)
					return err
				},
				Write: func(ctx context.Context, value string) error {
					request, _ := http.NewRequestWithContext(ctx, http.MethodPut, p.URL, strings.NewReader(value))
					response, err := client.Do(request)
					if err == nil {
						err = response.Body.Close()
					}
					return err
				},
				Close: transport.CloseIdleConnections,
			}
		},
	})
}
