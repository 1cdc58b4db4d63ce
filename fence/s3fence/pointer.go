package s3fence

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"

	"github.com/leaderrun/leaderrun/internal/remedy"
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

// content is the pointer as an object of a key. It is read back first: what nobody could read would lock the key for ever, and a text
// that is not UTF-8 comes back as another one.
func (p pointer) content(key string) (Content, error) {
	raw := p.encode()
	back, err := decodePointer(key, raw)
	switch {
	case err != nil || back != p:
		return Content{}, remedy.Misconfigured("the names of resource and job, and the key of --once, must be UTF-8", "the pointer could not be read back")
	case len(raw) > pointerLimit:
		return Content{}, remedy.Misconfigured("give resource, job, or the key of --once a shorter name",
			"the pointer would have %d bytes, and %d are possible", len(raw), pointerLimit)
	}
	return Content{Body: bytes.NewReader(raw), Size: int64(len(raw)), SHA256: sha256.Sum256(raw), Type: "application/json"}, nil
}
