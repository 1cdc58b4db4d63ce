package s3fence

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3 makes ETags with it; nothing secret is
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// state is what was found at KEY. The zero value: nothing.
type state struct {
	exists  bool
	pointer pointer
	raw     []byte
	etag    string // never empty where there is one
}

// isWhole says whether the bytes prove that the ETag is theirs.
func (s state) isWhole() bool {
	sum := md5.Sum(s.raw) //nolint:gosec // as above
	return strings.Trim(s.etag, `"`) == hex.EncodeToString(sum[:])
}

// is says whether both are the same pointer, or none.
func (s state) is(other state) bool { return s.exists == other.exists && s.etag == other.etag }

// condition holds as long as nobody has changed what was found.
func (s state) condition() Condition {
	if !s.exists {
		return Condition{IfAbsent: true}
	}
	return Condition{IfMatch: s.etag}
}

// look reads the pointer.
//
// What is written is decided by the bytes and written by the ETag, so both must be of one object. A gateway in front of a file
// system may answer with the ETag of a newer one than the bytes. Where the ETag is the MD5 of the bytes that is seen at once; where it
// is not, as with some kinds of encryption, two answers must be the same: no two pointers are. The ETag in the answer to a PUT is
// not used at all.
func (o *Object) look(ctx context.Context) (state, error) {
	var last state
	for try := range tries {
		if err := pause(ctx, try-1); err != nil {
			return state{}, err
		}
		s, err := o.get(ctx)
		if err != nil || !s.exists || s.isWhole() {
			return s, err
		}
		if s.is(last) && bytes.Equal(s.raw, last.raw) {
			return s, nil
		}
		last = s
	}
	return state{}, errors.New("it changes too often to be read")
}

func (o *Object) get(ctx context.Context) (s state, err error) {
	err = again(ctx, func() error {
		s, err = o.getOnce(ctx)
		return err
	})
	return s, err
}

func (o *Object) getOnce(ctx context.Context) (state, error) {
	got, err := o.Store.Get(ctx, o.Key)
	if errors.Is(err, ErrNotFound) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	defer func() { _ = got.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(got.Body, pointerLimit+1))
	if err != nil {
		return state{}, err
	}
	p, err := decodePointer(o.Key, raw)
	switch {
	case err != nil || len(raw) > pointerLimit:
		return state{}, foreign(err)
	case got.ETag == "":
		return state{}, unchecked("the server tells no ETag")
	case strings.HasPrefix(got.ETag, "W/"):
		return state{}, unchecked("the server, or a proxy, tells a weak ETag, " + got.ETag + ", which If-Match never matches")
	}
	return state{exists: true, pointer: p, raw: raw, etag: got.ETag}, nil
}

func foreign(err error) error {
	if err == nil {
		err = errors.New("it is no pointer of leaderrun")
	}
	return remedy.Misconfigured("nothing was overwritten; use another key, or move that object away", "the key holds something else: %w", err)
}
