package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"

	"github.com/leaderrun/leaderrun/internal/ownership"
)

// Credential is what a client shows to be let in. Two are equal if they are the same one.
type Credential struct {
	Token       string           // "": none
	Certificate *tls.Certificate // nil: none
}

// Credentials are asked before each request and each TLS handshake. Implementations are safe for concurrent use.
type Credentials interface {
	// Get returns what to show now.
	Get(ctx context.Context) (Credential, error)
	// Refused says that the server has refused a credential: what was remembered of it is not to be shown again.
	Refused(c Credential)
}

// Fixed is a credential that stays the same.
type Fixed Credential

// Get implements Credentials.
func (f Fixed) Get(context.Context) (Credential, error) { return Credential(f), nil }

// Refused implements Credentials.
func (Fixed) Refused(Credential) {}

// TokenFile is a file with a token that somebody else writes anew before it expires: kubelet, in a pod. It is read
// for every request.
type TokenFile struct {
	Path        string
	Certificate *tls.Certificate // shown in addition; nil: none

	mu   sync.Mutex
	last string
}

// Get implements Credentials. While the file cannot be read, the last token counts.
func (f *TokenFile) Get(context.Context) (Credential, error) {
	text, err := f.read()
	token := strings.TrimSpace(string(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil && token != "":
		f.last = token
	case f.last != "":
	case err == nil:
		return Credential{}, fmt.Errorf("the token file %s is empty", f.Path)
	default:
		return Credential{}, fmt.Errorf("token file: %w", err)
	}
	return Credential{Token: f.last, Certificate: f.Certificate}, nil
}

// longestToken is far more than a token has: headers may have no more.
const longestToken = 64 << 10

// read reads a regular file: a request waits for no pipe.
func (f *TokenFile) read() ([]byte, error) {
	text, _, err := ownership.Read(f.Path, longestToken)
	return text, err
}

// Refused implements Credentials.
func (f *TokenFile) Refused(c Credential) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == c.Token {
		f.last = ""
	}
}
