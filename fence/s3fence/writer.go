package s3fence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/leaderrun/leaderrun/fence"
)

// MaxSize is how many bytes an object can have: what S3 takes in one request, which is written whole or not at all.
const MaxSize = 5 << 30

// Writer is a run that has raised the fence of an object. It may be used by several goroutines at once.
type Writer struct {
	object *Object
	run    fence.Run

	mu   sync.Mutex
	seen state // the pointer as it was last seen
}

// Replace replaces the data by the whole of body, in one step: whoever reads finds the old or the new. It reads body twice, from its
// beginning. The error is a *fence.StaleError if the run has been overtaken: then nothing was written, and what was uploaded
// is deleted. After an error that is no *fence.SetupError either it may not be known whether it was written; the text says so.
func (w *Writer) Replace(ctx context.Context, body io.ReadSeeker) error {
	content, err := w.object.measure(body)
	if err != nil {
		return err
	}
	key := w.object.newDataKey(w.run.Token)
	if err := again(ctx, func() error {
		_, err := w.object.Store.Put(ctx, key, content, Condition{})
		return err
	}); err != nil {
		if !isSetup(err) { // it may have arrived
			w.object.discard(ctx, key)
		}
		return fmt.Errorf("nothing was written: %w", err)
	}

	w.mu.Lock()
	seen := w.seen
	w.mu.Unlock()
	before, now, err := w.object.swap(ctx, seen, w.run, change{
		next: func(old pointer) pointer {
			p := pointer{Data: key, Size: content.Size, SHA256: hex.EncodeToString(content.SHA256[:]), Type: content.Type}
			p.Previous = old.Data
			return p
		},
		// A later run may have raised the fence since, or replaced the data: ours was there before.
		done: func(p pointer) bool { return p.Data == key || p.Previous == key },
	})
	if err != nil {
		if isDefinite(err) {
			w.object.discard(ctx, key)
		}
		return err
	}
	w.mu.Lock()
	w.seen = now
	w.mu.Unlock()
	w.object.discard(ctx, before.pointer.Previous)
	return nil
}

// isDefinite says whether a write that failed can never be carried out.
func isDefinite(err error) bool {
	_, stale := errors.AsType[*fence.StaleError](err)
	return stale || isSetup(err)
}

// measure reads the data through.
func (o *Object) measure(body io.ReadSeeker) (Content, error) {
	c := Content{Body: body, Type: o.ContentType}
	if c.Type == "" {
		c.Type = "application/octet-stream"
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return c, fmt.Errorf("the data: %w", err)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, body)
	if err != nil {
		return c, fmt.Errorf("the data: %w", err)
	}
	if n > MaxSize {
		return c, &fence.SetupError{
			Kind: fence.Configuration, Err: fmt.Errorf("the data has %d bytes, and S3 takes %d in one request", n, int64(MaxSize)),
			Hint: "write it in parts under keys of their own, and their list to this one",
		}
	}
	c.Size, c.SHA256 = n, [32]byte(sum.Sum(nil))
	return c, nil
}
