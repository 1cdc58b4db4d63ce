package s3fence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// MaxSize is how many bytes an object can have: what S3 takes in one request, which is written whole or not at all.
const MaxSize = 5 << 30

// Writer is a run that has raised the fence of an object. It may be used by several goroutines at once.
type Writer struct {
	object *Object
	run    fence.Run
	turn   chan struct{} // whose it is to write the pointer holds one: they would only get in each other's way
}

// Replace replaces the data by the whole of body, in one step: whoever reads finds the old or the new. It reads body at least twice,
// from its beginning. The error is a *fence.StaleError if the run has been overtaken: then nothing was written, and what was uploaded
// is deleted. Where it is not known whether it was written, ErrUnclear is among the errors: to raise the fence again ends that, by
// this run or by a later one, and to read then tells.
func (w *Writer) Replace(ctx context.Context, body io.ReadSeeker) error {
	content, err := w.object.measure(body)
	if err != nil {
		return err
	}
	for range tries {
		data := pointer{
			Data: w.object.newDataKey(w.run.Token), Size: content.Size, SHA256: hex.EncodeToString(content.SHA256[:]), Type: content.Type,
		}
		mayBeThere, err := w.object.upload(ctx, data.Data, content, Condition{Always: true})
		if err != nil {
			if mayBeThere {
				w.object.discard(ctx, data.Data)
			}
			return fmt.Errorf("nothing was written: %w", err)
		}
		if err := w.point(ctx, data); !errors.Is(err, errSpent) {
			return err
		}
	}
	return fmt.Errorf("nothing was written: %w", errSpent)
}

// point lets the pointer name the data, and deletes what it does not name any more.
func (w *Writer) point(ctx context.Context, data pointer) error {
	end, err := w.swap(ctx, data)
	switch {
	case err == nil:
		w.object.discard(ctx, end.replaced.Previous)
	case end.unnamed:
		w.object.discard(ctx, data.Data)
	}
	return err
}

func (w *Writer) swap(ctx context.Context, data pointer) (outcome, error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return outcome{unnamed: true}, context.Cause(ctx)
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	seen, err := w.object.look(ctx)
	if err != nil {
		return outcome{unnamed: true}, fmt.Errorf("nothing was written: %w", err)
	}
	replacing := swap{object: w.object, run: w.run, data: data, seen: seen}
	return replacing.do(ctx)
}

// upload writes an object until it is clear what became of it, and says whether it may be there.
func (o *Object) upload(ctx context.Context, key string, content Content, condition Condition) (mayBeThere bool, err error) {
	err = again(ctx, func() error {
		err := o.Store.Put(ctx, key, content, condition)
		mayBeThere = mayBeThere || !isRefusal(err)
		return err
	})
	return mayBeThere, err
}

// measure reads the data through.
func (o *Object) measure(body io.ReadSeeker) (Content, error) {
	c := Content{Body: body, Type: cmp.Or(o.ContentType, "application/octet-stream")}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return c, fmt.Errorf("the data: %w", err)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, body)
	if err != nil {
		return c, fmt.Errorf("the data: %w", err)
	}
	if n > MaxSize {
		return c, remedy.Misconfigured("write it in parts under keys of their own, and their list to this one",
			"the data has %d bytes, and S3 takes %d in one request", n, int64(MaxSize))
	}
	c.Size, c.SHA256 = n, [32]byte(sum.Sum(nil))
	return c, nil
}
