// Package filename turns names that people choose into names of files.
package filename

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxEscaped  = 200 // leaves room for prefixes and suffixes in a NAME_MAX of 255
	shownPrefix = 120 // of a longer one
)

// Escape makes a name a part of a file name, two names never the same: letters, digits, '.', '_' and '-' stay, the rest is
// percent-encoded, and a long one is a prefix and a hash after a '~', which is never left unescaped. It is at most 200 bytes long.
func Escape(name string) string {
	const hexadecimal = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexadecimal[c>>4], hexadecimal[c&15]})
		}
	}
	if b.Len() <= maxEscaped {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return b.String()[:shownPrefix] + "~" + hex.EncodeToString(sum[:16])
}
