package wire

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/remedy"
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

// The work that a server may ask for. Our proof is as hard to turn into the password as it has rounds, and goes to whoever
// asks: RFC 7677 wants 4096 at least, which is what PostgreSQL asks for unless it is configured. The library does them without
// looking at the clock.
const (
	leastRounds = 4096
	mostRounds  = 1 << 20
)

const (
	remedyBinding = "scram-sha-256 in pg_hba.conf, the password set anew, and TLS up to the server; or channel_binding=prefer"
	remedyKind    = "scram-sha-256 for this user in pg_hba.conf"
	remedyNone    = "the password of the user in the backend URL"
	remedyClear   = "?sslmode=verify-full&sslrootcert=FILE, and &server-name= where the certificate has another name than the host; or password_encryption = 'scram-sha-256' on the server, and the password set anew"
	remedyMD5     = "?sslmode=verify-full&sslrootcert=FILE, with ssl = on in postgresql.conf; or password_encryption = 'scram-sha-256' there, and the password set anew"
	remedyScram   = "password_encryption = 'scram-sha-256' and, from PostgreSQL 16 on, scram_iterations = 4096 or more, and the password set anew"
)

var errScram = errors.New("the server does not prove that it knows the password")

// phase is how far a log-in has come.
type phase int

const (
	named      phase = iota // we have said who we are: the server lets us in, or asks for a proof
	begun                   // SCRAM was begun: the server's challenge is due
	challenged              // the challenge was answered: the proof is due that the server knows the password, too
	proved                  // all proofs were given: the server lets us in
	admitted                // it has
)

// step is a phase, and what an Authentication message asks for in it.
type step struct {
	phase phase
	kind  uint32
}

// after says which phase follows on a step. There are no other steps: the manual's "Message Flow", "Start-up" has no more that
// we take part in.
var after = map[step]phase{
	{named, authOK}:         admitted,
	{named, authClear}:      proved,
	{named, authMD5}:        proved,
	{named, authSASL}:       begun,
	{begun, authContinue}:   challenged,
	{challenged, authFinal}: proved,
	{proved, authOK}:        admitted,
}

// logIn watches what a server says until it is ready, before the library hears it. The library gives every proof that it is asked
// for, to anybody, as often as it is asked; what must not be answered ends the connection here. So nobody is taken for a
// server that has let us in who has left out a step.
type logIn struct {
	cfg    *Config
	tls    bool
	secret bool // nobody can listen: inside of TLS, or on this machine
	phase  phase
	asked  uint32 // by the last Authentication message
	keyed  bool   // the server gave the key by which to cancel
}

// handle returns an error for a message that must not come now.
func (l *logIn) handle(kind byte, body []byte) error {
	switch {
	case kind == 'R':
		return l.prove(body)
	case kind == 'v': // NegotiateProtocolVersion: we asked for what all know
		return unexpected("the server does not speak version 3.0 of the protocol")
	case l.phase != admitted && kind != 'E':
		return unexpected("a message of type %q before the server has let us in", kind)
	case kind == 'K' && !l.keyed:
		l.keyed = true
	case !strings.ContainsRune("ENSZ", rune(kind)):
		return unexpected("a message of type %q at the beginning", kind)
	}
	return nil
}

// prove returns an error for an Authentication message that must not be answered.
func (l *logIn) prove(body []byte) error {
	if len(body) < 4 {
		return unexpected("a message of type %q is malformed", 'R')
	}
	kind, text := binary.BigEndian.Uint32(body), string(body[4:])
	next, due := after[step{l.phase, kind}]
	switch {
	case !due && kind == authOK && l.phase != admitted: // in the middle of SCRAM
		return errScram
	case !due && l.phase == named && kind != authContinue && kind != authFinal:
		return remedy.Denied(remedyKind, "the server asks for a kind of authentication that leaderrun does not know")
	case !due:
		return unexpected("an authentication of kind %d out of turn", kind)
	}
	proved := l.asked == authFinal
	l.phase, l.asked = next, kind
	switch {
	case l.cfg.Binding == "require" && (kind == authClear || kind == authMD5 || kind == authOK && !proved ||
		kind == authSASL && !slices.Contains(strings.Split(text, "\x00"), scramMechanism+"-PLUS")):
		return remedy.Denied(remedyBinding, "the server offers no proof that is bound to its certificate, and the URL says channel_binding=require")
	case kind == authClear && !(l.tls && l.cfg.ClearText):
		return remedy.Denied(remedyClear, "the server asks for the password in clear text, which is sent only inside of TLS and to a host whose name it has verified")
	case kind == authMD5 && !l.secret:
		return remedy.Denied(remedyMD5, "the server asks for MD5, which who listens can turn into the password, and the connection is not encrypted")
	case kind == authSASL && !slices.Contains(strings.Split(text, "\x00"), scramMechanism):
		return remedy.Denied(remedyKind, "the server asks for SASL without SCRAM-SHA-256")
	case kind == authContinue:
		return acceptable(text)
	case kind != authOK && l.cfg.Login.Password() == "":
		return remedy.Denied(remedyNone, "the server asks for a password")
	}
	return nil
}

// acceptable returns an error for a challenge of SCRAM that asks for too little work, or for too much. The nonce in it is the
// library's.
func acceptable(challenge string) error {
	_, rest, ok1 := strings.Cut(challenge, ",s=")
	salt, rounds, ok2 := strings.Cut(rest, ",i=")
	n, err := strconv.Atoi(rounds)
	if !ok1 || !ok2 || salt == "" || err != nil || n < 1 || n > mostRounds {
		return errChallenge
	}
	if n < leastRounds {
		return remedy.Denied(remedyScram, "the server asks for SCRAM with an iteration count of %d: less than %d gives the password away", n, leastRounds)
	}
	return nil
}

var errChallenge = unexpected("the challenge of SCRAM-SHA-256 is not acceptable")
