package s3fence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// Read writes the data to w as it comes. Its size is compared before the first byte, its SHA-256 at the end: after an error, what w
// has got may not be used. It returns ErrNoData if nothing was ever written. Whoever reads needs no token.
func (o *Object) Read(ctx context.Context, w io.Writer) error {
	missing := ""
	for range tries {
		s, err := o.lookFor(ctx)
		switch {
		case err != nil:
			return err
		case s.pointer.Data == "":
			return ErrNoData
		case s.pointer.Data == missing:
			return damaged(errors.New("the data is gone: somebody has deleted " + missing))
		}
		var got *Stored
		err = again(ctx, func() error {
			got, err = o.Store.Get(ctx, s.pointer.Data)
			return err
		})
		if errors.Is(err, ErrNotFound) { // it was replaced twice since, or is lost
			missing = s.pointer.Data
			continue
		}
		if err != nil {
			return err
		}
		return s.pointer.pour(got, w)
	}
	return errors.New("it changes too often to be read")
}

// lookFor is look with a limit, for whoever wants nothing but to read.
func (o *Object) lookFor(ctx context.Context) (state, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	return o.look(ctx)
}

// pour writes the data that a pointer names.
func (p pointer) pour(got *Stored, w io.Writer) error {
	defer func() { _ = got.Body.Close() }()
	if got.Size >= 0 && got.Size != p.Size {
		return damaged(fmt.Errorf("%s has %d bytes, and not %d as when it was written", p.Data, got.Size, p.Size))
	}
	sum := sha256.New()
	switch n, err := io.Copy(w, io.TeeReader(io.LimitReader(got.Body, p.Size+1), sum)); {
	case err != nil:
		return fmt.Errorf("after %d of %d bytes: %w", n, p.Size, err)
	case n != p.Size || hex.EncodeToString(sum.Sum(nil)) != p.SHA256:
		return damaged(errors.New(p.Data + " is not what was written"))
	}
	return nil
}

func damaged(err error) error {
	return remedy.Misconfigured("let nothing but leaderrun write or delete below the key; the next run that writes sets it right", "%w", err)
}
