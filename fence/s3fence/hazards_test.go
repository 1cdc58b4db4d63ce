package s3fence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
)

// Why the token is not in the metadata of the data itself: an ETag says what the bytes are, and comes again with them. A run that has
// read A and is frozen writes over a later run's A, or A after B, although that one has raised the fence.
func TestETagsComeAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	put := func(text, token, ifMatch string) (int, string) {
		header := map[string]string{"X-Amz-Meta-Fence": token}
		if ifMatch != "" {
			header["If-Match"] = ifMatch
		}
		r, err := s.Ask(t.Context(), "PUT", "/bucket/naive", text, header)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r.StatusCode, r.Header.Get("ETag")
	}
	_, seen := put("A", "1", "") // the older run reads this, and is frozen
	_, etag := put("A", "2", seen)
	_, etag = put("B", "2", etag)
	put("A", "2", etag)
	if status, _ := put("overtaken", "1", seen); status != http.StatusOK {
		t.Errorf("the ETag of the same bytes is another one now, answer %d: the pointer is not needed", status)
	}

	// The same with the pointer: of the same run and the same data no ETag comes again, nor where somebody has deleted the key.
	o := &s3fence.Object{Store: bucketOf(t, s), Key: "k"}
	etags := map[string]bool{}
	isNew := func() {
		got, err := o.Store.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if etags[got.ETag] {
			t.Errorf("%s comes again", got.ETag)
		}
		etags[got.ETag] = true
	}
	for range 3 {
		s.API(t, "DELETE", "/bucket/k", "")
		w := raise(t, o, 1)
		isNew()
		for range 2 {
			write(t, w, "A")
			isNew()
		}
	}
}

// Two runs find no object. The one that is frozen before it makes the pointer must not put its own in the place of the newer one's.
func TestBothFindNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	frozen := &faulty{Store: b}
	frozen.before = func(r request) error {
		if r.method == "PUT" && r.key == "k" && r.n < 10 {
			raise(t, &s3fence.Object{Store: b, Key: "k"}, 8)
		}
		return nil
	}
	_, err := (&s3fence.Object{Store: frozen, Key: "k"}).Raise(t.Context(), run(7))
	wantStale(t, err, 7, 8)
}

// A server that does not compare would let every stale run pass. It is refused before anything is written to the key.
func TestServerThatDoesNotCompare(t *testing.T) {
	t.Parallel()
	for _, ignored := range []string{"If-Match", "If-None-Match"} {
		t.Run(ignored, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			o := &s3fence.Object{Key: "k", Store: unconditional{bucketOf(t, s), ignored}}
			_, err := o.Raise(t.Context(), run(1))
			wantSetup(t, err, fence.Configuration, "ignores "+ignored)
			if keys := s.Keys(t, ""); len(keys) != 0 {
				t.Errorf("there is %q", keys)
			}
			// A bucket that was moved there.
			raise(t, &s3fence.Object{Key: "k", Store: bucketOf(t, s)}, 1)
			before := s.API(t, "GET", "/bucket/k", "")
			_, err = o.Raise(t.Context(), run(2))
			if ignored == "If-Match" {
				wantSetup(t, err, fence.Configuration, "ignores If-Match")
				if after := s.API(t, "GET", "/bucket/k", ""); after != before {
					t.Errorf("the pointer was changed: %s", after)
				}
			} else if err != nil { // the pointer is there: nothing will be created
				t.Error(err)
			}
		})
	}
}

// unconditional is a store that ignores a condition.
type unconditional struct {
	s3fence.Store

	ignored string
}

func (u unconditional) Put(ctx context.Context, key string, c s3fence.Content, condition s3fence.Condition) error {
	if u.ignored == "If-Match" && condition.IfMatch != "" || u.ignored == "If-None-Match" && condition.IfAbsent {
		condition = s3fence.Condition{Always: true}
	}
	return u.Store.Put(ctx, key, c, condition)
}

// An object of somebody else is never overwritten, nor is anything deleted that a pointer of another key names.
func TestForeignObject(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	write(t, raise(t, &s3fence.Object{Store: b, Key: "original"}, 1), "x")
	for key, text := range map[string]string{
		"empty": "", "text": "a,b\n1,2\n", "JSON": `{"token": 1}`, "large": strings.Repeat("x", 1<<17),
		"version-2": `{"format": "leaderrun s3 pointer 2", "token": 1, "nonce": "x"}`,
		"no-token":  `{"format": "leaderrun s3 pointer 1", "nonce": "x"}`,
		"copied":    s.API(t, "GET", "/bucket/original", ""),
		"others":    `{"format": "leaderrun s3 pointer 1", "token": 1, "nonce": "x", "data": "others.d/1", "previous": "precious"}`,
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s.API(t, "PUT", "/bucket/"+key, text)
			o := &s3fence.Object{Store: b, Key: key}
			_, err := o.Raise(t.Context(), run(5))
			wantSetup(t, err, fence.Configuration, "the key holds something else")
			wantSetup(t, o.Read(t.Context(), io.Discard), fence.Configuration, "the key holds something else")
			if got := s.API(t, "GET", "/bucket/"+key, ""); got != text {
				t.Errorf("there is %q now", got)
			}
		})
	}
}

// With the key the token is gone: a run that was refused before would pass. So a run that has raised the fence makes no new one.
func TestDeletedKey(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := &s3fence.Object{Store: bucketOf(t, s), Key: "k"}
	w := raise(t, o, 1)
	s.API(t, "DELETE", "/bucket/k", "")
	wantSetup(t, w.Replace(t.Context(), strings.NewReader("x")), fence.Configuration, "somebody has deleted the key")
	if keys := s.Keys(t, ""); len(keys) != 0 {
		t.Errorf("there is %q", keys)
	}
	write(t, raise(t, o, 1), "x")
}

func TestDataIsNotWhatWasWritten(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := &s3fence.Object{Store: bucketOf(t, s), Key: "k"}
	write(t, raise(t, o, 1), "one")
	data := s.Keys(t, "k.d/")[0]
	for _, c := range []struct{ does, text, printed, want string }{
		{"another size", "three", "", "has 5 bytes, and not 3"},
		{"other bytes", "two", "two", "is not what was written"},
	} {
		s.API(t, "PUT", "/bucket/"+data, c.text)
		var b strings.Builder
		wantSetup(t, o.Read(t.Context(), &b), fence.Configuration, c.want)
		if b.String() != c.printed {
			t.Errorf("%s: printed %q", c.does, b.String())
		}
	}
	s.API(t, "DELETE", "/bucket/"+data, "")
	wantSetup(t, o.Read(t.Context(), io.Discard), fence.Configuration, "the data is gone")
	write(t, raise(t, o, 2), "again") // sets it right
	if got := read(t, o); got != "again" {
		t.Errorf("read %q", got)
	}
}

// A gateway in front of a file system may answer with the bytes of one object and the ETag of the next. Whoever believes it
// replaces a pointer that he has not read.
func TestBytesOfOneAndETagOfTheNext(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	raise(t, &s3fence.Object{Store: b, Key: "k"}, 1)
	torn := &tearing{Store: b, raises: func() { raise(t, &s3fence.Object{Store: b, Key: "k"}, 9) }}
	_, err := (&s3fence.Object{Store: torn, Key: "k"}).Raise(t.Context(), run(2))
	wantStale(t, err, 2, 9)
}

// tearing answers the first Get with the bytes before and the ETag after another run has raised the fence.
type tearing struct {
	s3fence.Store

	raises func()
}

func (s *tearing) Get(ctx context.Context, key string) (*s3fence.Stored, error) {
	got, err := s.Store.Get(ctx, key)
	if s.raises == nil || err != nil {
		return got, err
	}
	s.raises()
	s.raises = nil
	newer, err := s.Store.Get(ctx, key)
	if err == nil {
		_ = newer.Body.Close()
		got.ETag = newer.ETag
	}
	return got, err
}

// Where the ETag is not the MD5 of the bytes, as with keys of a KMS, it works too.
func TestETagsThatSayNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := &s3fence.Object{Store: opaque{bucketOf(t, s)}, Key: "k"}
	w := raise(t, o, 1)
	write(t, w, "one")
	raise(t, o, 2)
	wantStale(t, w.Replace(t.Context(), strings.NewReader("late")), 1, 2)
	if got := read(t, o); got != "one" {
		t.Errorf("read %q", got)
	}
}

// opaque is a store whose ETags are no MD5.
type opaque struct{ s3fence.Store }

func (s opaque) Get(ctx context.Context, key string) (*s3fence.Stored, error) {
	got, err := s.Store.Get(ctx, key)
	if err == nil {
		got.ETag = "x" + got.ETag
	}
	return got, err
}

func (s opaque) Put(ctx context.Context, key string, c s3fence.Content, condition s3fence.Condition) error {
	condition.IfMatch = strings.TrimPrefix(condition.IfMatch, "x")
	return s.Store.Put(ctx, key, c, condition)
}

func TestKeyThatLeavesNoRoomForData(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	for _, length := range []int{0, s3fence.MaxKey + 1} {
		_, err := (&s3fence.Object{Store: b, Key: strings.Repeat("k", length)}).Raise(t.Context(), run(1))
		if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Kind != fence.Configuration {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
	long := strings.Repeat(strings.Repeat("k", 95)+"/", 9) + strings.Repeat("k", s3fence.MaxKey-9*96)
	write(t, raise(t, &s3fence.Object{Store: b, Key: long}, 9_999_999_999), "x")
}

// Data that cannot be deleted is told of, and does no harm.
func TestLeftover(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var left []string
	o := &s3fence.Object{
		Key: "k", Leftover: func(key string, _ error) { left = append(left, key) },
		Store: &faulty{Store: bucketOf(t, s), before: func(r request) error {
			if r.method == "DELETE" {
				return errLost
			}
			return nil
		}},
	}
	w := raise(t, o, 1)
	for range 3 {
		write(t, w, "x")
	}
	if len(left) != 2 || !strings.HasPrefix(left[0], "k.d/probe-") || !strings.HasPrefix(left[1], "k.d/1-") {
		t.Errorf("told of %q", left)
	}
}
