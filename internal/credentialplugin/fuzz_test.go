package credentialplugin

import (
	"strings"
	"testing"
)

// FuzzRead: whatever a plugin prints, it is refused without a word of it, or a credential.
func FuzzRead(f *testing.F) {
	const head = `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":`
	for _, text := range []string{
		head + `{"token":"sesame","expirationTimestamp":"2026-01-02T03:04:05Z"}}`, head + `null}`, head + `{"token":null}}`, head + `[]}`, "null", "",
		head + `{"clientCertificateData":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----","clientKeyData":"x"}}`, head + `{"token":"a","expirationTimestamp":"x"}}`,
	} {
		f.Add([]byte(text))
	}
	p := &Plugin{APIVersion: V1, Command: "plugin"}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := p.read(text)
		switch {
		case err != nil && (c != nil || len(err.Error()) > 200):
			t.Fatalf("%+v, %v", c, err)
		case err == nil && c.Token == "" && c.Certificate == nil:
			t.Fatalf("no credential of %q", text)
		case err == nil && !strings.Contains(string(text), "ExecCredential") && !strings.Contains(string(text), `\u`):
			t.Fatalf("%q is one", text)
		}
	})
}
