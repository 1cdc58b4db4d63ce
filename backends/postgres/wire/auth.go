package wire

import (
	"crypto/md5" //nolint:gosec // the server asks for it
	"crypto/rand"
	"encoding/hex"
	"slices"
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

// AuthenticationError says that we cannot, or must not, prove who we are in the way that a server asks for.
type AuthenticationError struct {
	What   string
	Remedy string // "": another user or password
}

func (e *AuthenticationError) Error() string { return e.What }

const (
	remedyClear = "?sslmode=verify-full&sslrootcert=FILE, and &server-name= where the certificate has another name than the host; or password_encryption = 'scram-sha-256' on the server, and the password set anew"
	remedyMD5   = "?sslmode=verify-full&sslrootcert=FILE, with ssl = on in postgresql.conf; or password_encryption = 'scram-sha-256' there, and the password set anew"
	remedyScram = "password_encryption = 'scram-sha-256' and, from PostgreSQL 16 on, scram_iterations = 4096 or more, and the password set anew"
)

// phase is how far a log-in has come. The manual's "Message Flow", "Start-up" has what a server says in each; whatever
// else it says ends the connection. So nobody is taken for a server that has let us in who has left out a step.
type phase int

const (
	named      phase = iota // we have said who we are: the server lets us in, or asks for a proof
	begun                   // SCRAM was begun: the server's challenge is due
	challenged              // the challenge was answered: the proof is due that the server knows the password, too
	proved                  // all proofs were given: the server lets us in
	admitted                // it has
)

// authentication is how a connection proves who it is.
type authentication struct {
	cfg    *Config
	secret bool // nobody can listen: inside of TLS, or on this machine
	tls    bool
	phase  phase
	scram  *scram
}

// answer reads an Authentication message, and returns the text of the PasswordMessage that answers it; none: nothing
// is to be said.
func (a *authentication) answer(m *message) (answer []byte, err error) {
	kind := m.int32()
	if m.torn {
		return nil, m.over()
	}
	switch {
	case kind == authOK && (a.phase == begun || a.phase == challenged):
		return nil, errScram
	case kind == authOK && a.phase != admitted:
		a.phase = admitted
		return nil, m.over()
	case kind == authContinue && a.phase == begun:
		a.phase = challenged
		text, err := a.scram.final(string(m.b))
		return []byte(text), err
	case kind == authFinal && a.phase == challenged:
		a.phase = proved
		return nil, a.scram.verify(string(m.b))
	case a.phase != named || kind == authContinue || kind == authFinal:
		return nil, unexpected("an authentication of kind %d out of turn", kind)
	}
	switch kind {
	case authClear:
		a.phase = proved
		if !a.tls || !a.cfg.ClearText {
			return nil, &AuthenticationError{"the server asks for the password in clear text, which is sent only inside of TLS and to a host whose name it has verified", remedyClear}
		}
		return a.password(a.cfg.Password, m)
	case authMD5:
		a.phase = proved
		if !a.secret {
			return nil, &AuthenticationError{"the server asks for MD5, which who listens can turn into the password, and the connection is not encrypted", remedyMD5}
		}
		salt := m.take(4)
		return a.password("md5"+md5Hex(md5Hex(a.cfg.Password+a.cfg.User)+string(salt)), m)
	case authSASL:
		a.phase = begun
		return a.begin(m)
	}
	return nil, &AuthenticationError{What: "the server asks for a kind of authentication that leaderrun does not know"}
}

// password ends a text as the message wants it.
func (a *authentication) password(text string, m *message) ([]byte, error) {
	if err := m.over(); err != nil {
		return nil, err
	}
	if a.cfg.Password == "" {
		return nil, &AuthenticationError{What: "the server asks for a password"}
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
	case m.over() != nil:
		return nil, m.over()
	case !slices.Contains(offered, scramMechanism):
		return nil, &AuthenticationError{What: "the server asks for SASL without SCRAM-SHA-256"}
	case a.cfg.Password == "":
		return nil, &AuthenticationError{What: "the server asks for a password"}
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
