package file

import (
	"path/filepath"
	"strings"

	"github.com/leaderrun/leaderrun/internal/filename"
)

// The files of a job. They are never removed.
const (
	lockSuffix   = ".lock" // locked as long as wrapper or guardian live; holds the holder and token of the grant
	treeSuffix   = ".tree" // locked as long as anybody of the run lives; is empty
	recordSuffix = ".json" // the record
	beatSuffix   = ".beat" // locked for a turn, the moment of a request; holds the last renewal
)

// paths are the files of one job.
type paths struct {
	trust
	job, lock, tree, record, beat, tmp string
}

func (s *store) paths(job string) paths {
	name := escape(job)
	base := filepath.Join(s.dir, name)
	return paths{
		trust: s.trusts,
		job:   job, lock: base + lockSuffix, tree: base + treeSuffix, record: base + recordSuffix, beat: base + beatSuffix,
		// One name is enough: only who has the turn writes it, over what a crash left behind. A
		// leading dot is escaped in jobs' names.
		tmp: filepath.Join(s.dir, "."+name+".tmp"),
	}
}

// escape is filename.Escape, but for a leading dot: what begins with one is ours.
func escape(job string) string {
	name := filename.Escape(job)
	if rest, hidden := strings.CutPrefix(name, "."); hidden {
		return "%2E" + rest
	}
	return name
}
