package s3fence

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// probe finds out whether the server compares before it writes. One that takes the headers and ignores them would let every stale run
// pass, and nobody would see it. So each Raise asks for a write that no condition allows: one request, which a bucket that was moved
// to another server is worth. The Raise that makes the pointer also asks to create an object twice, and to replace it as another
// version. The key is one that nobody else has: where the server does not compare, nothing is overwritten.
func (o *Object) probe(ctx context.Context, creates bool) error {
	key := dataFolder(o.Key) + "probe-" + newNonce()
	exists := false
	defer func() {
		if exists {
			o.discard(ctx, key)
		}
	}()
	passes := func(c Condition) (bool, error) {
		text := []byte("leaderrun asks whether this server compares ETags; this object can be deleted\n")
		mayBeThere, err := o.upload(ctx, key, Content{
			Body: bytes.NewReader(text), Size: int64(len(text)), SHA256: sha256.Sum256(text), Type: "text/plain",
		}, c)
		exists = exists || err == nil || c.IfAbsent && mayBeThere
		if errors.Is(err, ErrCondition) {
			return false, nil
		}
		return err == nil, err
	}
	switch passed, err := passes(impossible); {
	case err != nil:
		return err
	case passed:
		return unchecked("the server ignores If-Match")
	case !creates:
		return nil
	}
	if _, err := passes(Condition{IfAbsent: true}); err != nil { // refused: a first try was carried out, and its answer lost
		return err
	}
	if passed, err := passes(Condition{IfAbsent: true}); err != nil || passed {
		return cmp.Or(err, unchecked("the server ignores If-None-Match"))
	}
	if passed, err := passes(impossible); err != nil || passed {
		return cmp.Or(err, unchecked("the server ignores If-Match"))
	}
	return nil
}

// impossible is the condition that no object fulfils.
var impossible = Condition{IfMatch: `"00000000000000000000000000000000"`} // read only

const conditionsHint = "the server must support conditional writes, as S3 does; a newer version of it may"

// unchecked is the error of a server that cannot fence.
func unchecked(why string) error {
	return remedy.Misconfigured(conditionsHint, "%s: it cannot refuse a stale run", why)
}

// cleaning is how long data that nothing points to may take to be deleted.
const cleaning = 10 * time.Second

// discard deletes what nothing points to, if it can.
func (o *Object) discard(ctx context.Context, key string) {
	if key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	if err := o.Store.Delete(ctx, key); err != nil && o.Leftover != nil && !errors.Is(err, ErrNotFound) {
		o.Leftover(key, err)
	}
}
