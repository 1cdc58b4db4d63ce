package wire

import (
	"crypto/md5" //nolint:gosec // the server asks for it
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

// What an Authentication message asks for.
const (
	authOK         = 0
	authClear      = 3
	authMD5        = 5
	authSASL       = 10
	authContinue   = 11
	authFinal      = 12
	scramMechanism = "SCRAM-SHA-256"
)

// ErrAuthentication says that we cannot, or must not, prove who we are in the way that a server asks for.
var ErrAuthentication = errors.New("authentication")

type authError struct{ what string }

func (e *authError) Error() string        { return e.what }
func (e *authError) Is(target error) bool { return target == ErrAuthentication }

// authentication is how a connection proves who it is.
type authentication struct {
	cfg   *Config
	tls   bool
	scram *scram
	done  bool // SCRAM: the server has proved that it knows the password too
}

// answer reads an Authentication message, and returns the text of the PasswordMessage that answers it; none: nothing
// is to be said.
func (a *authentication) answer(m *message) (answer []byte, err error) {
	switch kind := m.int32(); kind {
	case authOK:
		if a.scram != nil && !a.done {
			return nil, errScram
		}
		return nil, nil
	case authClear:
		if !a.tls || !a.cfg.ClearText {
			return nil, &authError{"the server asks for the password in clear text, which is sent only to a host that TLS has verified"}
		}
		return a.password(a.cfg.Password)
	case authMD5:
		salt := m.take(4)
		return a.password("md5" + md5Hex(md5Hex(a.cfg.Password+a.cfg.User)+string(salt)))
	case authSASL:
		return a.begin(m)
	case authContinue:
		if a.scram == nil || a.scram.signature != nil {
			return nil, unexpected("SCRAM goes on that was not begun")
		}
		text, err := a.scram.final(string(m.b))
		return []byte(text), err
	case authFinal:
		if a.scram == nil {
			return nil, unexpected("SCRAM ends that was not begun")
		}
		a.done = true
		return nil, a.scram.verify(string(m.b))
	default:
		return nil, &authError{"the server asks for a kind of authentication that leaderrun does not know"}
	}
}

// password ends a text as the message wants it.
func (a *authentication) password(text string) ([]byte, error) {
	if a.cfg.Password == "" {
		return nil, &authError{"the server asks for a password"}
	}
	return append([]byte(text), 0), nil
}

// begin answers the list of mechanisms of SASL.
func (a *authentication) begin(m *message) ([]byte, error) {
	var offered []string
	for name := m.text(); name != ""; name = m.text() {
		offered = append(offered, name)
	}
	switch {
	case !slices.Contains(offered, scramMechanism):
		return nil, &authError{"the server knows no SCRAM-SHA-256, but " + strings.Join(offered, ", ")}
	case a.cfg.Password == "":
		return nil, &authError{"the server asks for a password"}
	case a.scram != nil:
		return nil, unexpected("SCRAM begins a second time")
	}
	a.scram = &scram{password: a.cfg.Password, nonce: rand.Text()}
	first := a.scram.first()
	var o output
	o.text(scramMechanism)
	o.int32(len(first))
	o.bytes([]byte(first))
	return o.b, nil
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // the server asks for it
	return hex.EncodeToString(sum[:])
}
