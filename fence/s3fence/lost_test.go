package s3fence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
	"github.com/leaderrun/leaderrun/test/servers"
)

var errLost = errors.New("lost")

// requests of a run that makes the pointer and writes, at most; beyond, nothing is to be lost.
const requests = 14

// One request, or its answer, is lost, or there is a conflict: whichever it is, the run goes on, and the data is written once.
func TestOneFault(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	for n := 1; n <= requests; n++ {
		for name, fault := range map[string]func(*faulty, func(request) error){
			"lost":        func(f *faulty, at func(request) error) { f.before = at },
			"answer lost": func(f *faulty, at func(request) error) { f.after = at },
		} {
			t.Run(fmt.Sprintf("%s at %d", name, n), func(t *testing.T) {
				t.Parallel()
				key := strings.ReplaceAll(t.Name(), " ", "-")
				f := &faulty{Store: b}
				fault(f, func(r request) error {
					if r.n == n {
						return errLost
					}
					return nil
				})
				o := &s3fence.Object{Store: f, Key: key}
				w := raise(t, o, 1)
				write(t, w, "one")
				write(t, w, "two")
				plain := &s3fence.Object{Store: b, Key: key}
				if got := read(t, plain); got != "two" {
					t.Errorf("read %q", got)
				}
				raise(t, plain, 2)
				wantStale(t, w.Replace(t.Context(), strings.NewReader("late")), 1, 2)
			})
		}
	}
}

// From one request on no answer comes. The run ends with an error that is right: where it says that nothing was written, nothing was.
func TestNoAnswerAnyMore(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	for n := 1; n <= requests; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			key := strings.ReplaceAll(t.Name(), "/", "-")
			plain := &s3fence.Object{Store: b, Key: key}
			w := raise(t, plain, 1)
			write(t, w, "old")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := &faulty{Store: b, after: func(r request) error {
				if r.n < n {
					return nil
				}
				cancel() // nobody waits for the next try
				return errLost
			}}
			o := &s3fence.Object{Store: f, Key: key}
			w, err := o.Raise(ctx, run(2))
			if err == nil {
				err = w.Replace(ctx, strings.NewReader("new"))
			}
			got := read(t, plain)
			switch {
			case err == nil && got != "new":
				t.Errorf("it succeeded, and there is %q", got)
			case err != nil && got == "new" && !strings.Contains(err.Error(), "it is not known whether it was written"):
				t.Errorf("it was written, and the error is %v", err)
			case err != nil && !errors.Is(err, errLost) && !errors.Is(err, context.Canceled):
				t.Errorf("another error: %v", err)
			}
			// Whatever became of it, the next run goes on, and finds data that is there.
			write(t, raise(t, plain, 3), "next")
		})
	}
}

// delaying holds a write of a key back until it is called.
type delaying struct {
	s3fence.Store
	key  string
	nth  int // which one, from 1 on
	late func() error
}

func (d *delaying) Put(ctx context.Context, key string, c s3fence.Content, condition s3fence.Condition) error {
	if key == d.key {
		if d.nth--; d.nth == 0 {
			d.late = func() error { return d.Store.Put(context.WithoutCancel(ctx), key, c, condition) }
			return errLost
		}
	}
	return d.Store.Put(ctx, key, c, condition)
}

func isSetup(err error) bool {
	_, ok := errors.AsType[*fence.SetupError](err)
	return ok
}

// passTo passes requests on to a server, and its answers back.
func passTo(t *testing.T, s *servers.S3Server, change func(*http.Response) error) http.Handler {
	t.Helper()
	target, err := url.Parse(s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{ModifyResponse: change, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
}

// answersOf puts a server before another that changes its answers.
func answersOf(t *testing.T, s *servers.S3Server, change func(*http.Response) error) func(*s3fence.Config) {
	t.Helper()
	front := httptest.NewServer(passTo(t, s, change))
	t.Cleanup(front.Close)
	return func(c *s3fence.Config) { c.Endpoint = front.URL }
}
