package backends

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/leaderrun/leaderrun/internal/panics"
)

// Rekeyer is a Store that can take another user and password while it is open. Of the others, the files of tokens and certificates
// are read anew for each connection; or nothing but a restart helps.
type Rekeyer interface {
	// Rekey takes the user and password of a URL, for the connections that are opened from now on. If the URL cannot be read or
	// names another store, it returns an error that shows no secret, and nothing changes.
	Rekey(rawURL string) error
}

// urlSource is where the URL of an open store is kept, and what was read there last.
type urlSource struct {
	read func() (string, error)
	take func(rawURL string) error

	taken atomic.Int64 // how many times another user or password was

	reading chan struct{} // holds one: whoever reads the URL
	last    string
	wrong   error // why last was not taken
}

// FollowURL implements Backend.
func (e *Engine) FollowURL(rawURL string, read func() (string, error)) {
	if store, ok := e.store.(Rekeyer); ok {
		e.urls = &urlSource{last: rawURL, read: read, take: store.Rekey, reading: make(chan struct{}, 1)}
	}
}

// Reread implements Backend.
func (e *Engine) Reread(ctx context.Context) (bool, error) {
	return e.urls.newerThan(ctx, e.urls.count())
}

// rekeying calls f, and once more if the store has refused our user or password and there are others by now. Only the context bounds
// both calls together: a renewal counts from before the first one.
func (e *Engine) rekeying(ctx context.Context, f func() error) error {
	before := e.urls.count()
	err := f()
	refused, ok := errors.AsType[*PermanentError](err)
	if !ok || refused.Kind != Credentials {
		return err
	}
	changed, wrong := e.urls.newerThan(ctx, before)
	switch {
	case changed:
		return f()
	case wrong != nil && ctx.Err() == nil:
		return &PermanentError{Kind: Credentials, Hint: refused.Hint, Err: fmt.Errorf("%w; the URL was read again, and is not taken: %w", refused.Err, wrong)}
	}
	return err
}

func (u *urlSource) count() int64 {
	if u == nil {
		return 0
	}
	return u.taken.Load()
}

// newerThan says whether the user or password have changed since there were so many: another request may have read them already. A
// text that was read before is not looked at again. It returns when ctx ends, also while the file system hangs.
func (u *urlSource) newerThan(ctx context.Context, before int64) (bool, error) {
	if u == nil {
		return false, nil
	}
	select {
	case u.reading <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return panics.Await(ctx, func() (bool, error) {
		defer func() { <-u.reading }()
		if u.taken.Load() > before {
			return true, nil
		}
		text, err := u.read()
		if err != nil || text == u.last {
			return false, cmp.Or(err, u.wrong)
		}
		u.last, u.wrong = text, u.take(text)
		if u.wrong != nil {
			return false, u.wrong
		}
		u.taken.Add(1)
		return true, nil
	})
}
