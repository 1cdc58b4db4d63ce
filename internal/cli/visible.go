package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/internal/backendurl"
)

// VisibleJSON writes what nobody sees in the strings of a JSON text as \uXXXX, which means the same: a control character, a
// space of no width or a change of direction in a name would show other names than there are.
func VisibleJSON(text []byte) []byte {
	hidden := func(r rune) bool { return r >= utf8.RuneSelf && !unicode.IsPrint(r) || r == unicode.MaxASCII }
	if bytes.IndexFunc(text, hidden) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/2)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch high, low := utf16.EncodeRune(r); {
		case !hidden(r):
			out = append(out, text[:size]...)
		case high == utf8.RuneError:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		text = text[size:]
	}
	return out
}

// urlLike is what may be a URL in a text, also one whose slashes were taken for those of a path.
var urlLike = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*:/+[^\s"'` + "`" + `]+`)

// withoutPasswords hides what of the URLs in a text no output may show. A URL may stand where nobody looks for one: in the
// place of a file's name, which the system's message repeats.
func withoutPasswords(text string) string {
	return urlLike.ReplaceAllStringFunc(text, func(word string) string {
		scheme, rest, _ := strings.Cut(strings.TrimRight(word, ":,.;)"), ":/")
		for _, secret := range SecretsOf(scheme + "://" + strings.TrimLeft(rest, "/")) {
			if !strings.HasSuffix(secret, hiddenText+"@") {
				word = hide(word, secret)
			}
		}
		return word
	})
}

const hiddenText = "xxxxx"

// hide takes a secret out of a text.
func hide(text, secret string) string {
	if strings.HasSuffix(secret, "@") { // what stands before the host of a URL
		return strings.ReplaceAll(text, secret, hiddenText+"@")
	}
	return backendurl.Hide(text, secret)
}
