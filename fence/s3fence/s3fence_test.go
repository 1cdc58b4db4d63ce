package s3fence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/s3fence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// bucketOf returns the bucket of a server, as a client of its own.
func bucketOf(t testing.TB, s *servers.S3Server, change ...func(*s3fence.Config)) *s3fence.Bucket {
	t.Helper()
	c := s3fence.Config{
		Name: "bucket", Endpoint: s.Endpoint(),
		Keys: s3fence.Keys{Access: servers.S3AccessKey, Secret: servers.S3SecretKey},
	}
	for _, f := range change {
		f(&c)
	}
	b, err := s3fence.NewBucket(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func newServer(t testing.TB) *servers.S3Server {
	t.Helper()
	return servers.S3(t, servers.S3Options{})
}

func run(token int64) fence.Run { return fence.Run{Token: token, Job: "job"} }

func raise(t testing.TB, o *s3fence.Object, token int64) *s3fence.Writer {
	t.Helper()
	w, err := o.Raise(t.Context(), run(token))
	if err != nil {
		t.Fatalf("token %d: %v", token, err)
	}
	return w
}

func write(t testing.TB, w *s3fence.Writer, text string) {
	t.Helper()
	if err := w.Replace(t.Context(), strings.NewReader(text)); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// read returns the data; "": there is none.
func read(t testing.TB, o *s3fence.Object) string {
	t.Helper()
	var b bytes.Buffer
	if err := o.Read(t.Context(), &b); err != nil && !errors.Is(err, s3fence.ErrNoData) {
		t.Fatal(err)
	}
	return b.String()
}

func wantStale(t testing.TB, err error, token, highest int64) {
	t.Helper()
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok || stale.Token != token || stale.Highest != highest || stale.Resource == "" {
		t.Errorf("got %v, want that token %d is stale by %d", err, token, highest)
	}
}

func wantSetup(t testing.TB, err error, kind fence.SetupKind, text string) {
	t.Helper()
	setup, ok := errors.AsType[*fence.SetupError](err)
	if !ok || setup.Kind != kind || setup.Hint == "" || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want a SetupError of kind %d with a hint and %q", err, kind, text)
	}
}

// The older run stops at every byte that it sends or receives.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	reader := &s3fence.Object{Store: bucketOf(t, s), Key: "dir/object"}
	fencetest.Run(t, fencetest.Subject{
		Read: func(t testing.TB) string { t.Helper(); return read(t, reader) },
		Writer: func(t testing.TB, r fence.Run, gate *fencetest.Gate) fencetest.Writer {
			t.Helper()
			b := bucketOf(t, s, func(c *s3fence.Config) { c.Dial = gate.Dialer() })
			o := &s3fence.Object{Store: b, Key: "dir/object"}
			var w *s3fence.Writer
			return fencetest.Writer{
				Raise: func(ctx context.Context) (err error) { w, err = o.Raise(ctx, r); return err },
				Write: func(ctx context.Context, value string) error { return w.Replace(ctx, strings.NewReader(value)) },
				Close: b.Close,
			}
		},
	})
}

func TestReplace(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for name, key := range map[string]string{
		"plain": "k", "folders": "a/b/c.csv", "strange": "ä b+c%20~'(x)*!?#&=.txt", "dots": "a..b/.hidden",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &s3fence.Object{Store: bucketOf(t, s), Key: key}
			if err := o.Read(t.Context(), io.Discard); !errors.Is(err, s3fence.ErrNoData) {
				t.Errorf("an object that does not exist: %v", err)
			}
			w := raise(t, o, 7)
			if err := o.Read(t.Context(), io.Discard); !errors.Is(err, s3fence.ErrNoData) {
				t.Errorf("an object that was never written: %v", err)
			}
			for _, text := range []string{"one", "two", "", "two", strings.Repeat("long ", 1<<19)} {
				write(t, w, text)
				if got := read(t, o); got != text {
					t.Errorf("read %d bytes %.20q, want %d bytes %.20q", len(got), got, len(text), text)
				}
			}
			write(t, raise(t, o, 7), "the same run again")
			raise(t, o, 8)
			if got := read(t, o); got != "the same run again" {
				t.Errorf("to raise the fence has changed the data: %q", got)
			}
		})
	}
}

// A reader who has the pointer, and stands still while the data is replaced, finds what he came for, or something newer.
func TestReaderInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	o := &s3fence.Object{Store: b, Key: "k"}
	w := raise(t, o, 1)
	for replaced, want := range map[int]string{1: "old", 3: "3"} {
		write(t, w, "old")
		slow := &s3fence.Object{Key: "k", Store: &faulty{Store: b, before: func(r request) error {
			if r.n == 2 {
				for i := range replaced {
					write(t, w, fmt.Sprint(i+1))
				}
			}
			return nil
		}}}
		if got := read(t, slow); got != want {
			t.Errorf("replaced %d times in the middle: read %q, want %q", replaced, got, want)
		}
	}
}
