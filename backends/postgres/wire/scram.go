package wire

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The work that a server may ask for. Our proof is as hard to turn into the password as it has rounds, and goes to whoever
// asks: RFC 7677 wants 4096 at least, which is what PostgreSQL asks for unless it is configured.
const (
	leastRounds = 4096
	mostRounds  = 1 << 20
)

var errScram = errors.New("the server does not prove that it knows the password")

// scram is one exchange of SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding.
//
// A password is taken as it is, byte by byte, as libpq takes one that it cannot prepare. RFC 5802 would have it normalized by
// SASLprep, which changes nothing in ASCII and little in what people type elsewhere; what it changes is refused by the server.
type scram struct {
	user, password string
	nonce          string // ours

	firstBare string
	signature []byte // that the server must show
}

// first is the first message to the server. PostgreSQL knows the user already, and wants none.
func (s *scram) first() string {
	s.firstBare = "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.user) + ",r=" + s.nonce
	return "n,," + s.firstBare
}

// final answers the server's first message.
func (s *scram) final(challenge string) (string, error) {
	nonce, rest, ok1 := strings.Cut(challenge, ",")
	salted, rounds, ok2 := strings.Cut(rest, ",")
	nonce, ok3 := strings.CutPrefix(nonce, "r=")
	salted, ok4 := strings.CutPrefix(salted, "s=")
	rounds, ok5 := strings.CutPrefix(rounds, "i=")
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return "", unexpected("the challenge of SCRAM-SHA-256 makes no sense")
	}
	salt, err := base64.StdEncoding.DecodeString(salted)
	n, errRounds := strconv.Atoi(rounds)
	if err != nil || len(salt) == 0 || errRounds != nil || n < 1 || n > mostRounds || !strings.HasPrefix(nonce, s.nonce) || nonce == s.nonce {
		return "", unexpected("the challenge of SCRAM-SHA-256 is not acceptable")
	}
	if n < leastRounds {
		return "", &AuthenticationError{fmt.Sprintf("the server asks for SCRAM with an iteration count of %d: less than %d gives the password away", n, leastRounds), remedyScram}
	}
	key, err := pbkdf2.Key(sha256.New, s.password, salt, n, sha256.Size)
	if err != nil {
		return "", err
	}
	withoutProof := "c=biws,r=" + nonce
	auth := s.firstBare + "," + challenge + "," + withoutProof
	clientKey := mac(key, "Client Key")
	stored := sha256.Sum256(clientKey)
	proof := mac(stored[:], auth)
	for i := range proof {
		proof[i] ^= clientKey[i]
	}
	s.signature = mac(mac(key, "Server Key"), auth)
	return withoutProof + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// verify reads the server's last message.
func (s *scram) verify(outcome string) error {
	v, ok := strings.CutPrefix(outcome, "v=")
	signature, err := base64.StdEncoding.DecodeString(v)
	if !ok || err != nil || len(s.signature) == 0 || !hmac.Equal(signature, s.signature) {
		return errScram
	}
	return nil
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	_, _ = m.Write([]byte(text)) // to memory
	return m.Sum(nil)
}
