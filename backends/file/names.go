package file

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// The files of a job. They are never removed.
const (
	lockSuffix   = ".lock" // locked as long as anybody of the run lives; holds the holder and token of the grant
	recordSuffix = ".json" // the record
	beatSuffix   = ".beat" // locked for the moment of a step; holds the last renewal
)

const (
	maxEscaped  = 200 // leaves room for suffixes in a NAME_MAX of 255
	shownPrefix = 120 // of a longer one
)

// paths are the files of one job.
type paths struct {
	job, lock, record, beat, tmp string
}

func (d *Driver) paths(job string) paths {
	name := escape(job)
	base := filepath.Join(d.dir, name)
	return paths{
		job: job, lock: base + lockSuffix, record: base + recordSuffix, beat: base + beatSuffix,
		// One name is enough: only who has the beat's lock writes it, over what a crash left behind. A
		// leading dot is escaped in jobs' names.
		tmp: filepath.Join(d.dir, "."+name+".tmp"),
	}
}

// escape turns a job's name into a file name, two names never into the same: letters, digits, '.', '_' and '-'
// stay, the rest is percent-encoded, and a long one is a prefix and a hash after a '~', which is never left
// unescaped.
func escape(job string) string {
	const hexadecimal = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(job) {
		c := job[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexadecimal[c>>4], hexadecimal[c&15]})
		}
	}
	if b.Len() <= maxEscaped {
		return b.String()
	}
	sum := sha256.Sum256([]byte(job))
	return b.String()[:shownPrefix] + "~" + hex.EncodeToString(sum[:16])
}
