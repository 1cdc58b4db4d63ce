package filefence

import (
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/leaderrun/leaderrun/internal/filename"
)

// The files of a fence. The first two are never removed: who removes the first forgets the fence, who removes the
// second lets two in at a time.
const (
	stateSuffix     = ".fence"      // the highest token seen
	lockSuffix      = ".fence.lock" // locked for the moments in which a token is compared
	temporarySuffix = ".tmp"        // of what is not yet in its place
)

const temporaryBytes = 8 // of chance in the name of a temporary file

// paths are the files of one fence.
type paths struct {
	dir, state, lock string
	temporary        string // the base name of its temporary files, up to what differs
}

func pathsOf(dir, name string) paths {
	base := "." + filename.Escape(name)
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
