package s3fence_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
)

// memory is a store for tests in which time is not that of the clock.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (m *memory) etag(key string) string { return fmt.Sprintf(`"%x"`, md5.Sum(m.objects[key])) }

func (m *memory) Get(_ context.Context, key string) (*s3fence.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.objects[key]
	if !ok {
		return nil, s3fence.ErrNotFound
	}
	return &s3fence.Stored{Body: io.NopCloser(bytes.NewReader(text)), Size: int64(len(text)), ETag: m.etag(key)}, nil
}

func (m *memory) Put(_ context.Context, key string, c s3fence.Content, condition s3fence.Condition) error {
	if err := condition.Check(); err != nil {
		return err
	}
	text := make([]byte, c.Size)
	if _, err := c.Body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.ReadFull(c.Body, text); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, exists := m.objects[key]
	if exists && condition.IfAbsent || condition.IfMatch != "" && (!exists || condition.IfMatch != m.etag(key)) {
		return s3fence.ErrCondition
	}
	m.objects[key] = text
	return nil
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// Each time another write is the first. That ends too, and until then nobody is asked without a pause.
func TestCollisionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{objects: map[string][]byte{}}
		plain := &s3fence.Object{Store: m, Key: "k"}
		w := raise(t, plain, 1)
		tried := 0
		f := &faulty{Store: m}
		o := &s3fence.Object{Store: f, Key: "k"}
		late := raise(t, o, 1)
		f.before = func(r request) error {
			if r.method == "PUT" && r.key == "k" {
				tried++
				write(t, w, "another")
			}
			return nil
		}
		begin := time.Now()
		err := late.Replace(t.Context(), strings.NewReader("mine"))
		took := time.Since(begin)
		if err == nil || err.Error() != "others write all the time" || tried < 10 || tried > 100 || took < time.Duration(tried-10)*time.Second || took > 3*time.Minute {
			t.Errorf("after %d tries and %v: %v", tried, took, err)
		}
		if n := len(m.objects); n != 3 {
			t.Errorf("there are %d objects, and not the pointer and what it names", n)
		}
	})
}

// A server that is silent each time is not waited for as often as one that says no at once.
func TestSilenceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{objects: map[string][]byte{}}
		silent := false
		f := &faulty{Store: slowly{m, &silent}}
		o := &s3fence.Object{Store: f, Key: "k"}
		w := raise(t, o, 1)
		write(t, w, "one")
		silent = true
		for name, do := range map[string]func() error{
			"raise": func() error { _, err := o.Raise(t.Context(), run(1)); return err },
			"read":  func() error { return o.Read(t.Context(), io.Discard) },
		} {
			begin := time.Now()
			err := do()
			if took := time.Since(begin); err == nil || took > 150*time.Second || !strings.Contains(err.Error(), "too slow") {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
		}
	})
}

// slowly is a store that answers nothing for a minute while it is silent.
type slowly struct {
	*memory
	silent *bool
}

func (s slowly) Get(ctx context.Context, key string) (*s3fence.Stored, error) {
	if !*s.silent {
		return s.memory.Get(ctx, key)
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(time.Minute):
		return nil, errLost
	}
}

// ETags that never match, since something on the way has changed them, are the fault of no other run.
func TestETagsThatDoNotMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ etag, want string }{
		{`W/%s`, "tells a weak ETag"},
		{`"%s-gzip"`, "is not what it compares"},
		{``, "tells no ETag"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{objects: map[string][]byte{}}
			raise(t, &s3fence.Object{Store: m, Key: "k"}, 1)
			o := &s3fence.Object{Store: changing{m, c.etag}, Key: "k"}
			for token := range int64(2) {
				_, err := o.Raise(t.Context(), run(token+1))
				wantSetup(t, err, fence.Configuration, c.want)
			}
		})
	}
}

// changing is a store behind something that changes ETags.
type changing struct {
	*memory
	etag string
}

func (s changing) Get(ctx context.Context, key string) (*s3fence.Stored, error) {
	got, err := s.memory.Get(ctx, key)
	if err == nil {
		got.ETag = strings.Replace(s.etag, "%s", strings.Trim(got.ETag, `"`), 1)
	}
	return got, err
}

// A pointer that nobody could read would lock its key.
func TestPointerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o   s3fence.Object
		run fence.Run
	}{
		"key":       {s3fence.Object{Key: "k\xff"}, run(1)},
		"resource":  {s3fence.Object{Key: "k", Resource: "\xff"}, run(1)},
		"long":      {s3fence.Object{Key: "k", Resource: strings.Repeat("x", 1<<16)}, run(1)},
		"long once": {s3fence.Object{Key: "k"}, fence.Run{Token: 1, Once: strings.Repeat("x", 1<<16)}},
	} {
		m := &memory{objects: map[string][]byte{}}
		c.o.Store = m
		if _, err := c.o.Raise(t.Context(), c.run); !isSetup(err) || len(m.objects) != 0 {
			t.Errorf("%s: got %v, and there is %q", name, err, m.objects)
		}
	}
	// The fence can be raised, and with the names of the data it is too long.
	m := &memory{objects: map[string][]byte{}}
	o := &s3fence.Object{Store: m, Key: "k", Resource: strings.Repeat("x", 1<<16-170)}
	w := raise(t, o, 1)
	if err := w.Replace(t.Context(), strings.NewReader("x")); !isSetup(err) || len(m.objects) != 1 {
		t.Errorf("got %v, and there are %d objects", err, len(m.objects))
	}
	raise(t, o, 2)
}

func TestConditions(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := bucketOf(t, s)
	for _, c := range []s3fence.Condition{{}, {IfMatch: "x", IfAbsent: true}, {IfAbsent: true, Always: true}, {IfMatch: "x", Always: true}} {
		text := s3fence.Content{Body: strings.NewReader("x"), Size: 1, SHA256: sha256.Sum256([]byte("x"))}
		if err := b.Put(t.Context(), "k", text, c); err == nil || !strings.Contains(err.Error(), "needs one condition") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
