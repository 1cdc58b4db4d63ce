// Package s3fence fences an object in S3, or in a server that speaks S3 and compares ETags when it writes.
//
// S3 compares no tokens. What it compares is the ETag, and that of an object is made of its bytes: it comes again when the same
// bytes are written again, and knows nothing of a token in the metadata. So KEY is a small pointer, whose bytes hold the token and a
// number that never comes again. It names the object with the data, which lies under KEY.d/ and is never changed.
//
// Only the pointer is fenced: it is replaced by a PUT with If-Match and the ETag that was read, the first one with If-None-Match.
// What an overtaken run has uploaded lies beside it, and nothing ever points there.
//
// What writes or deletes KEY without a condition goes past the fence. So does a server that compares and writes in two steps;
// one that does not compare at all is found out before it is trusted.
package s3fence

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// Object is a fenced object. It may be used by several goroutines at once.
type Object struct {
	Store Store
	Key   string
	// Resource is what errors and the pointer call the object; "": Key.
	Resource string
	// ContentType is that of the data; "": application/octet-stream.
	ContentType string
	// Leftover is told of data that nothing points to any more and that could not be deleted; nil: nobody is.
	Leftover func(key string, err error)
}

var _ fence.Resource[*Writer] = (*Object)(nil)

// MaxKey is how many bytes a key can have: those of the data are longer, and S3 takes 1024.
const MaxKey = 960

// ErrNoData says that nothing has been written to an object yet.
var ErrNoData = errors.New("nothing has been written to it yet")

// Raise implements fence.Resource. It takes two requests where the run has raised the fence before, else three, and four more where
// there is no object yet; how large the data is does not matter. To raise it again makes a new pointer: after that no write of the
// same run that is still under way can be carried out.
func (o *Object) Raise(ctx context.Context, r fence.Run) (*Writer, error) {
	if err := fence.CheckToken(r.Token); err != nil {
		return nil, err
	}
	if err := CheckKey(o.Key); err != nil {
		return nil, remedy.Misconfigured("", "%w", err)
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	found, err := o.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.overtaken(r, found); err != nil {
		return nil, err
	}
	if found.pointer.Token < r.Token {
		if err := o.probe(ctx, !found.exists); err != nil {
			return nil, err
		}
	}
	raising := swap{object: o, run: r, seen: found}
	if _, err := raising.do(ctx); err != nil {
		return nil, err
	}
	return &Writer{object: o, run: r, turn: make(chan struct{}, 1)}, nil
}

// CheckKey says what is wrong with a key.
func CheckKey(key string) error {
	switch {
	case key == "" || len(key) > MaxKey:
		return fmt.Errorf("the key has %d bytes, and at least 1 and at most %d are possible", len(key), MaxKey)
	case !utf8.ValidString(key):
		return errors.New("the key is not UTF-8")
	}
	return nil
}

// overtaken returns the error of a run that is before the one that has raised the fence.
func (o *Object) overtaken(r fence.Run, found state) error {
	if found.pointer.Token > r.Token {
		return &fence.StaleError{Resource: cmp.Or(o.Resource, o.Key), Token: r.Token, Highest: found.pointer.Token}
	}
	return nil
}

// dataFolder is what the keys of all data of an object begin with.
func dataFolder(key string) string { return key + ".d/" }

// newDataKey makes a key that nobody else has. The token in it tells people which run it is of.
func (o *Object) newDataKey(token int64) string {
	return dataFolder(o.Key) + strconv.FormatInt(token, 10) + "-" + newNonce()
}

// newNonce returns 128 random bits.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
