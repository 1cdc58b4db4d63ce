package s3fence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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

// A write without an answer arrives late, when the run has written again, or a later run has raised the fence. It must change nothing:
// the ETag that it waits for never comes again.
func TestLateWriteAfterALostOne(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	o := &s3fence.Object{Store: b, Key: "k"}
	w := raise(t, o, 1)
	write(t, w, "old")
	f := &delaying{Store: b, key: "k", nth: 2} // the first one raises the fence
	slow := &s3fence.Object{Store: f, Key: "k"}
	write(t, raise(t, slow, 1), "new")
	if f.late == nil {
		t.Fatal("no write was held back")
	}
	if err := f.late(); !errors.Is(err, s3fence.ErrCondition) {
		t.Errorf("the write that was held back: %v", err)
	}
	if got := read(t, o); got != "new" {
		t.Errorf("read %q", got)
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

// The network takes every answer from here on.
func TestRepliesAreCut(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	proxy := servers.NewProxy(t, s.Addr())
	o := &s3fence.Object{Key: "k", Store: bucketOf(t, s, func(c *s3fence.Config) { c.Endpoint = "http://" + proxy.Addr() })}
	w := raise(t, o, 1)
	proxy.CutReplies(true)
	if _, err := o.Raise(t.Context(), run(2)); err == nil || isSetup(err) {
		t.Errorf("got %v", err)
	}
	proxy.CutReplies(false)
	write(t, w, "one")
	proxy.Garble(true)
	if err := w.Replace(t.Context(), strings.NewReader("two")); err == nil || isSetup(err) {
		t.Errorf("got %v", err)
	}
	proxy.Garble(false)
	if got := read(t, o); got != "one" {
		t.Errorf("read %q", got)
	}
}

func isSetup(err error) bool {
	_, ok := errors.AsType[*fence.SetupError](err)
	return ok
}

// S3 answers 409 where two writes meet, and 503 where there are too many. Both are for a moment.
func TestAnswersThatPass(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for code, status := range map[string]int{
		"ConditionalRequestConflict": http.StatusConflict, "SlowDown": http.StatusServiceUnavailable,
		"InternalError": http.StatusInternalServerError, "": http.StatusBadGateway,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			asked := map[string]int{}
			front := inFrontOf(t, s, func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				if asked[r.Method]++; asked[r.Method]%2 == 0 {
					return false
				}
				w.WriteHeader(status)
				if code != "" {
					_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>not now</Message></Error>", code)
				}
				return true
			})
			o := &s3fence.Object{Key: fmt.Sprint("k", status), Store: bucketOf(t, s, front)}
			write(t, raise(t, o, 1), "one")
			if got := read(t, o); got != "one" {
				t.Errorf("read %q", got)
			}
		})
	}
}

// inFrontOf puts a server before another that answers some requests itself.
func inFrontOf(t *testing.T, s *servers.S3Server, answers func(http.ResponseWriter, *http.Request) bool) func(*s3fence.Config) {
	t.Helper()
	pass := passTo(t, s, nil)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers(w, r) {
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	return func(c *s3fence.Config) { c.Endpoint = front.URL }
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

// While the server stays away, the tries end.
func TestTriesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		f := &faulty{Store: nil, before: func(request) error { asked++; return errLost }}
		_, err := (&s3fence.Object{Store: f, Key: "k"}).Raise(t.Context(), run(1))
		if !errors.Is(err, errLost) || asked < 3 || asked > 10 {
			t.Errorf("after %d tries: %v", asked, err)
		}
		if err := (&s3fence.Object{Store: f, Key: "k"}).Read(t.Context(), io.Discard); !errors.Is(err, errLost) {
			t.Errorf("read: %v", err)
		}
	})
}
