package s3fence_test

import (
	"context"
	"sync"

	"github.com/leaderrun/leaderrun/fence/s3fence"
)

// request is one call of a store.
type request struct {
	n      int // from 1 on
	method string
	key    string
}

// faulty is a store with faults. Before a request, an error means that it was never carried out; after it, that the answer is lost.
type faulty struct {
	s3fence.Store

	before, after func(request) error

	mu sync.Mutex
	n  int
}

func (f *faulty) around(method, key string, do func() error) error {
	f.mu.Lock()
	f.n++
	r := request{f.n, method, key}
	f.mu.Unlock()
	if f.before != nil {
		if err := f.before(r); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && f.after != nil {
		err = f.after(r)
	}
	return err
}

func (f *faulty) Get(ctx context.Context, key string) (got *s3fence.Stored, err error) {
	err = f.around("GET", key, func() error {
		got, err = f.Store.Get(ctx, key)
		return err
	})
	return got, err
}

func (f *faulty) Put(ctx context.Context, key string, c s3fence.Content, condition s3fence.Condition) error {
	return f.around("PUT", key, func() error { return f.Store.Put(ctx, key, c, condition) })
}

func (f *faulty) Delete(ctx context.Context, key string) error {
	return f.around("DELETE", key, func() error { return f.Store.Delete(ctx, key) })
}
