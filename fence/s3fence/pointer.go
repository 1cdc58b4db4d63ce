package s3fence

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3 makes ETags with it; nothing secret is
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
)

// pointer is what lies at KEY. Its format is documented: other programs read it.
type pointer struct {
	Format   string `json:"format"`
	Token    int64  `json:"token"` // of the run that raised the fence last
	Job      string `json:"job,omitempty"`
	Tick     string `json:"tick,omitempty"`
	Once     string `json:"once,omitempty"`
	Resource string `json:"resource,omitempty"`
	Data     string `json:"data,omitempty"` // the key of the data; "": there is none yet
	Size     int64  `json:"size"`           // of the data, in bytes
	SHA256   string `json:"sha256,omitempty"`
	Type     string `json:"content_type,omitempty"`
	Previous string `json:"previous,omitempty"` // the key of the data before; it is kept for those who are reading it
	Nonce    string `json:"nonce"`              // of the write, so that no two pointers have the same bytes
}

const (
	pointerFormat = "leaderrun s3 pointer 1"
	pointerLimit  = 64 << 10 // in bytes: more is no pointer
)

func (p pointer) encode() []byte {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(err) // it holds nothing but text and numbers
	}
	return append(text, '\n')
}

// decodePointer reads the pointer of a key. What it names is of that key, so that nothing of anybody else is ever deleted.
func decodePointer(key string, text []byte) (pointer, error) {
	var p pointer
	if err := json.Unmarshal(text, &p); err != nil || p.Format != pointerFormat {
		return p, errors.New("it is no pointer of leaderrun")
	}
	switch folder := dataFolder(key); {
	case p.Token < 1 || p.Nonce == "" || p.Size < 0:
		return p, errors.New("it is a pointer that makes no sense")
	case p.Data != "" && !strings.HasPrefix(p.Data, folder), p.Previous != "" && !strings.HasPrefix(p.Previous, folder):
		return p, errors.New("it is a pointer of another key")
	}
	return p, nil
}

// state is what was found at KEY. The zero value: nothing.
type state struct {
	pointer pointer
	raw     []byte
	etag    string
}

func (s state) absent() bool { return s.raw == nil }

// isWhole says whether the bytes prove that the ETag is theirs.
func (s state) isWhole() bool {
	sum := md5.Sum(s.raw) //nolint:gosec // as above
	return strings.Trim(s.etag, `"`) == hex.EncodeToString(sum[:])
}

// condition holds as long as nobody has changed what was found.
func (s state) condition() Condition { return Condition{IfMatch: s.etag, IfAbsent: s.absent()} }

// look reads the pointer.
//
// What is written is decided by the bytes and written by the ETag, so both must be of one object. A gateway in front of a file
// system may answer with the ETag of a newer one than the bytes. Where the ETag is the MD5 of the bytes that is seen at once; where it
// is not, as with some kinds of encryption, two answers must be the same: no two pointers are.
func (o *Object) look(ctx context.Context) (state, error) {
	var last state
	for try := range tries {
		if err := pause(ctx, try-1); err != nil {
			return state{}, err
		}
		s, err := o.get(ctx)
		if err != nil || s.absent() || s.isWhole() {
			return s, err
		}
		if s.etag == last.etag && bytes.Equal(s.raw, last.raw) {
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
	if raw == nil {
		raw = []byte{}
	}
	p, err := decodePointer(o.Key, raw)
	if err != nil || len(raw) > pointerLimit {
		return state{}, foreign(err)
	}
	if got.ETag == "" {
		return state{}, unchecked("the server tells no ETag")
	}
	return state{pointer: p, raw: raw, etag: got.ETag}, nil
}

func foreign(err error) error {
	if err == nil {
		err = errors.New("it is no pointer of leaderrun")
	}
	return &fence.SetupError{
		Kind: fence.Configuration, Err: fmt.Errorf("the key holds something else: %w", err),
		Hint: "nothing was overwritten; use another key, or move that object away",
	}
}

// content is the pointer as an object.
func (p pointer) content() (raw []byte, c Content) {
	raw = p.encode()
	return raw, Content{Body: bytes.NewReader(raw), Size: int64(len(raw)), SHA256: sha256.Sum256(raw), Type: "application/json"}
}
