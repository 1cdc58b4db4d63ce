package wire

import (
	"errors"
	"strings"
	"testing"
)

// The example of RFC 7677, section 3.
const (
	rfcNonce     = "rOprNGfwEbeRWgbNEkqO"
	rfcChallenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcFinal     = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcSignature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func TestScramOfTheRFC(t *testing.T) {
	t.Parallel()
	s := &scram{user: "user", password: "pencil", nonce: rfcNonce}
	if got := s.first(); got != "n,,n=user,r="+rfcNonce {
		t.Errorf("first: %s", got)
	}
	if err := s.verify(rfcSignature); !errors.Is(err, errScram) {
		t.Errorf("a signature before the challenge: %v", err)
	}
	got, err := s.final(rfcChallenge)
	if err != nil || got != rfcFinal {
		t.Errorf("final: %s, %v", got, err)
	}
	if err := s.verify(rfcSignature); err != nil {
		t.Errorf("verify: %v", err)
	}
	// A server that does not know the password cannot sign.
	for _, wrong := range []string{"v=" + strings.Repeat("A", 43) + "=", "v=", "", "e=other-error", rfcSignature[:len(rfcSignature)-1]} {
		if err := s.verify(wrong); !errors.Is(err, errScram) {
			t.Errorf("verify %q: %v", wrong, err)
		}
	}
}

func TestScramChallengesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, challenge := range []string{
		"", "r=" + rfcNonce, "r=" + rfcNonce + "x,s=,i=x", "r=" + rfcNonce + "x,s=!,i=1", "r=other,s=AAAA,i=4096",
		"r=" + rfcNonce + ",s=AAAA,i=4096",        // nothing of the server's own
		"r=" + rfcNonce + "x,s=AAAA,i=0",          // no work at all
		"r=" + rfcNonce + "x,s=AAAA,i=2000000000", // hours of it
	} {
		s := &scram{password: "pencil", nonce: rfcNonce}
		s.first()
		if got, err := s.final(challenge); err == nil {
			t.Errorf("%q is answered: %s", challenge, got)
		}
	}
}
