package s3fence

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Store is a bucket, as far as a fence needs one. Bucket is one; another client of S3 makes one in a few lines. It may be used by
// several goroutines at once.
//
// The errors are ErrNotFound, ErrCondition, ErrConflict, and a *fence.SetupError if nothing will work before somebody has changed
// something. After any other it is not known whether the request was carried out. A Store that tries again by itself has to tell
// ErrCondition only of a first try: the second one may find what the first one wrote.
type Store interface {
	// Get returns an object as it is now, or ErrNotFound.
	Get(ctx context.Context, key string) (*Stored, error)
	// Put writes an object, whole or not at all, and only if the condition holds in the moment in which it is written; else
	// ErrCondition or ErrConflict. A condition whose Check fails is refused. The body is not read any more after Put has returned.
	Put(ctx context.Context, key string, c Content, condition Condition) error
	// Delete deletes an object, if there is one.
	Delete(ctx context.Context, key string) error
}

// The errors of a Store on which a fence acts.
var (
	ErrNotFound  = errors.New("there is no such object")
	ErrCondition = errors.New("the condition does not hold")                   // 412; with IfMatch also 404
	ErrConflict  = errors.New("another request for the object was in the way") // 409; nothing was written
)

// Stored is an object as it was read. The caller closes Body.
type Stored struct {
	Body io.ReadCloser
	Size int64 // in bytes; negative: the server does not say
	ETag string
}

// Content is what an object is to hold.
type Content struct {
	Body   io.ReadSeeker // read from its beginning
	Size   int64         // in bytes
	SHA256 [32]byte
	Type   string
}

// Condition is what must hold for a Put: one of the three. The zero value is none, so that none is forgotten.
type Condition struct {
	IfMatch  string // the ETag that the object must have
	IfAbsent bool   // there must be no object
	Always   bool   // whatever is there is overwritten
}

// Check fails unless there is exactly one condition.
func (c Condition) Check() error {
	n := 0
	for _, set := range []bool{c.IfMatch != "", c.IfAbsent, c.Always} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("a write needs one condition, and has %d", n)
	}
	return nil
}
