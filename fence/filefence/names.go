package filefence

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// The files of a fence. The first two are never removed: who removes the first forgets the fence, who removes the
// second lets two in at a time.
const (
	stateSuffix     = ".fence"      // the highest token seen
	lockSuffix      = ".fence.lock" // locked for the moments in which a token is compared
	temporarySuffix = ".tmp"        // of what is not yet in its place
)

const (
	maxEscaped     = 200 // leaves room for the suffixes in a NAME_MAX of 255
	shownPrefix    = 120 // of a longer one
	temporaryBytes = 8   // of chance in the name of a temporary file
)

// paths are the files of one fence.
type paths struct {
	dir, state, lock string
	temporary        string // the base name of its temporary files, up to what differs
}

func pathsOf(dir, name string) paths {
	base := "." + escape(name)
	return paths{
		dir: dir, state: filepath.Join(dir, base+stateSuffix), lock: filepath.Join(dir, base+lockSuffix),
		temporary: base + stateSuffix + ".",
	}
}

// newTemporary returns a path that no other temporary file has.
func (p paths) newTemporary() string {
	var chance [temporaryBytes]byte
	_, _ = rand.Read(chance[:]) // never fails
	return filepath.Join(p.dir, p.temporary+hex.EncodeToString(chance[:])+temporarySuffix)
}

// isTemporary says whether a file of the directory is one of this fence's temporary files. The name of a resource may
// begin as another one's temporary file does: so every character counts.
func (p paths) isTemporary(base string) bool {
	rest, begins := strings.CutPrefix(base, p.temporary)
	chance, ends := strings.CutSuffix(rest, temporarySuffix)
	return begins && ends && len(chance) == 2*temporaryBytes && strings.Trim(chance, "0123456789abcdef") == ""
}

// isOurs says whether a file's name is one that a fence gives to its own files.
func isOurs(base string) bool {
	if !strings.HasPrefix(base, ".") {
		return false
	}
	name, isTemporary := strings.CutSuffix(base, temporarySuffix)
	return strings.HasSuffix(base, stateSuffix) || strings.HasSuffix(base, lockSuffix) ||
		isTemporary && strings.HasSuffix(strings.TrimRight(name, "0123456789abcdef"), stateSuffix+".")
}

// escape makes the name of a resource a part of a file name, two names never the same: letters, digits, '.', '_' and '-'
// stay, the rest is percent-encoded, and a long one is a prefix and a hash after a '~', which is never left unescaped.
func escape(name string) string {
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
