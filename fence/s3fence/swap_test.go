package s3fence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
)

// afterMine is a store that does something once, when the pointer has come to name the data "mine", and then answers with an error.
func afterMine(t *testing.T, s s3fence.Store, do func() error) *faulty {
	t.Helper()
	plain := &s3fence.Object{Store: s, Key: "k"}
	over := false
	return &faulty{Store: s, after: func(r request) error {
		if r.method != "PUT" || r.key != "k" || over || read(t, plain) != "mine" {
			return nil
		}
		over = true
		return do()
	}}
}

// An answer is lost, and until the look others of the same run have replaced the data twice: ours was deleted, and must not be named again.
func TestReplacedTwiceBeforeTheLook(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer error
		want   string
	}{
		"no answer":          {errLost, "c"},
		"a repeated refusal": {s3fence.ErrCondition, "mine"}, // of a request that a proxy has sent twice
	} {
		s := newServer(t)
		b := bucketOf(t, s)
		plain := &s3fence.Object{Store: b, Key: "k"}
		f := afterMine(t, b, func() error {
			w := raise(t, plain, 7)
			write(t, w, "b")
			write(t, w, "c")
			return c.answer
		})
		err := raise(t, &s3fence.Object{Store: f, Key: "k"}, 7).Replace(t.Context(), strings.NewReader("mine"))
		if unclear := errors.Is(err, s3fence.ErrUnclear); unclear != (c.want == "c") || !unclear && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, plain); got != c.want {
			t.Errorf("%s: read %q, want %q", name, got, c.want)
		}
		if keys := s.Keys(t, "k.d/"); len(keys) != 2 {
			t.Errorf("%s: there are %q", name, keys)
		}
	}
}

// Two others of the run come first, between the look and the write. Nothing of it is lost, and nothing is told.
func TestTwoOthersComeFirst(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	plain := &s3fence.Object{Store: b, Key: "k"}
	w := raise(t, plain, 7)
	write(t, w, "a")
	f := &faulty{Store: b}
	late := raise(t, &s3fence.Object{Store: f, Key: "k"}, 7)
	over := false
	f.before = func(r request) error {
		if r.method == "PUT" && r.key == "k" && !over {
			over = true
			write(t, w, "b")
			write(t, w, "c")
		}
		return nil
	}
	write(t, late, "mine")
	if got := read(t, plain); got != "mine" {
		t.Errorf("read %q", got)
	}
	if keys := s.Keys(t, "k.d/"); len(keys) != 2 {
		t.Errorf("there are %q", keys)
	}
}

// Many goroutines write at once: they wait for each other, and none collides.
func TestOneWriterDoesNotCollideWithItself(t *testing.T) {
	t.Parallel()
	pointers := 0
	f := &faulty{Store: bucketOf(t, newServer(t))}
	w := raise(t, &s3fence.Object{Store: f, Key: "k"}, 1)
	f.before = func(r request) error {
		if r.method == "PUT" && r.key == "k" {
			pointers++ // only one has its turn
		}
		return nil
	}
	over := make(chan error)
	for i := range 10 {
		go func() { over <- w.Replace(t.Context(), strings.NewReader(fmt.Sprint(i))) }()
	}
	for range 10 {
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
	if pointers != 10 {
		t.Errorf("the pointer was written %d times", pointers)
	}
}

// The pointer was written, and then comes a refusal: of the same request, which a proxy has sent twice. Then the keys expire, so that nobody can
// look. What the pointer names must be there, whatever the error is.
func TestRefusedAndYetWritten(t *testing.T) {
	t.Parallel()
	expired := &fence.SetupError{Kind: fence.Credentials, Err: errors.New("ExpiredToken"), Hint: "x"}
	for name, answer := range map[string]error{
		"condition": s3fence.ErrCondition, "conflict": s3fence.ErrConflict, "keys": expired, "nothing": errLost,
	} {
		b := bucketOf(t, newServer(t))
		plain := &s3fence.Object{Store: b, Key: "k"}
		write(t, raise(t, plain, 7), "one")
		gone := false
		f := afterMine(t, b, func() error { gone = true; return answer })
		f.before = func(r request) error {
			if gone && r.method == "GET" {
				return expired
			}
			return nil
		}
		err := raise(t, &s3fence.Object{Store: f, Key: "k"}, 7).Replace(t.Context(), strings.NewReader("mine"))
		if name != "keys" && (!errors.Is(err, s3fence.ErrUnclear) || isSetup(err)) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, plain); got != "mine" {
			t.Errorf("%s: read %q", name, got)
		}
	}
}

// Something before the server answers otherwise than S3 does, though the pointer was written.
func TestAnswersOfAProxy(t *testing.T) {
	t.Parallel()
	for _, status := range []int{
		http.StatusCreated, http.StatusAccepted, http.StatusNoContent, http.StatusForbidden, http.StatusNotFound, http.StatusPreconditionFailed,
		http.StatusConflict, http.StatusNotImplemented, http.StatusBadGateway,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			plain := &s3fence.Object{Store: bucketOf(t, s), Key: "k"}
			on := false
			proxy := bucketOf(t, s, answersOf(t, s, func(r *http.Response) error {
				if on && r.Request.Method == http.MethodPut && strings.HasSuffix(r.Request.URL.Path, "/k") {
					r.StatusCode, r.Status = status, ""
				}
				return nil
			}))
			w := raise(t, &s3fence.Object{Store: proxy, Key: "k"}, 7)
			on = true
			write(t, w, "mine")
			if got := read(t, plain); got != "mine" {
				t.Errorf("read %q", got)
			}
			// Until the look two others of the run have written: a refusal that is not in the words of S3 proves nothing.
			passed := &overtaken{Store: proxy, by: func() {
				if read(t, plain) == "again" {
					w := raise(t, plain, 7)
					write(t, w, "b")
					write(t, w, "c")
				}
			}}
			err := raise(t, &s3fence.Object{Store: passed, Key: "k"}, 7).Replace(t.Context(), strings.NewReader("again"))
			if got := read(t, plain); got != "c" || !errors.Is(err, s3fence.ErrUnclear) {
				t.Errorf("read %q, and got %v", got, err)
			}
		})
	}
}

// overtaken is a store where others do something after each write of the pointer, whatever the answer is.
type overtaken struct {
	s3fence.Store
	by func()
}

func (s *overtaken) Put(ctx context.Context, key string, c s3fence.Content, condition s3fence.Condition) error {
	err := s.Store.Put(ctx, key, c, condition)
	if key == "k" {
		s.by()
	}
	return err
}

// A proxy drops the ETag from the answers to writes. The next write must not be one without a condition.
func TestNoETagInTheAnswerToAWrite(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	plain := &s3fence.Object{Store: bucketOf(t, s), Key: "k"}
	proxy := bucketOf(t, s, answersOf(t, s, func(r *http.Response) error {
		if r.Request.Method == http.MethodPut {
			r.Header.Del("ETag")
		}
		return nil
	}))
	older := raise(t, &s3fence.Object{Store: proxy, Key: "k"}, 7)
	write(t, older, "one")
	write(t, older, "two")
	write(t, raise(t, plain, 8), "later")
	wantStale(t, older.Replace(t.Context(), strings.NewReader("stale")), 7, 8)
	if got := read(t, plain); got != "later" {
		t.Errorf("read %q", got)
	}
}

// After an unclear end the run raises the fence again, before it reads. What was under way then cannot be carried out any more.
func TestToRaiseAgainEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := bucketOf(t, newServer(t))
	plain := &s3fence.Object{Store: b, Key: "k"}
	write(t, raise(t, plain, 1), "old")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &delaying{Store: b, key: "k", nth: 2} // the first one raises the fence
	f := &faulty{Store: d, before: func(request) error {
		if d.late != nil {
			cancel()
		}
		return nil
	}}
	err := raise(t, &s3fence.Object{Store: f, Key: "k"}, 1).Replace(ctx, strings.NewReader("late"))
	if !errors.Is(err, s3fence.ErrUnclear) {
		t.Errorf("got %v", err)
	}
	raise(t, plain, 1)
	if got := read(t, plain); got != "old" {
		t.Errorf("read %q", got)
	}
	if err := d.late(); !errors.Is(err, s3fence.ErrCondition) {
		t.Errorf("the write that was under way: %v", err)
	}
}

// The answer to an upload is lost, and the next try is forbidden: what may lie there is deleted, or told of.
func TestUploadThatMayHaveArrived(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	for name, deletes := range map[string]bool{"deleted": true, "told of": false} {
		uploads := 0
		var left []string
		f := &faulty{Store: b}
		o := &s3fence.Object{Store: f, Key: name, Leftover: func(key string, _ error) { left = append(left, key) }}
		w := raise(t, o, 1)
		forbidden := &fence.SetupError{Kind: fence.Credentials, Err: errors.New("403"), Hint: "x"}
		f.before = func(r request) error {
			if r.method == "PUT" {
				uploads++
			}
			if uploads > 1 && r.method == "PUT" || r.method == "DELETE" && !deletes {
				return forbidden
			}
			return nil
		}
		f.after = func(r request) error {
			if r.method == "PUT" {
				return errLost
			}
			return nil
		}
		wantSetup(t, w.Replace(t.Context(), strings.NewReader("x")), fence.Credentials, "nothing was written: 403")
		if keys := s.Keys(t, name+".d/"); (len(keys) == 0) != deletes || (len(left) == 0) != deletes {
			t.Errorf("%s: there are %q, and told of are %q", name, keys, left)
		}
		f.after = nil // refused at once: there is nothing to delete
		left = nil
		wantSetup(t, w.Replace(t.Context(), strings.NewReader("x")), fence.Credentials, "nothing was written: 403")
		if len(left) != 0 {
			t.Errorf("%s: told of %q", name, left)
		}
	}
}

// The key is deleted while a write is under way. It may have been there before, and be brought back.
func TestDeletedBeforeTheLook(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := &s3fence.Object{Store: bucketOf(t, s), Key: "k"}
	f := afterMine(t, o.Store, func() error {
		s.API(t, "DELETE", "/bucket/k", "")
		return errLost
	})
	err := raise(t, &s3fence.Object{Store: f, Key: "k"}, 1).Replace(t.Context(), strings.NewReader("mine"))
	if !errors.Is(err, s3fence.ErrUnclear) || !strings.Contains(err.Error(), "somebody has deleted the key") {
		t.Errorf("got %v", err)
	}
	if keys := s.Keys(t, "k.d/"); len(keys) != 1 {
		t.Errorf("there is %q", keys)
	}
	if err := o.Read(t.Context(), io.Discard); !errors.Is(err, s3fence.ErrNoData) {
		t.Errorf("read: %v", err)
	}
}
