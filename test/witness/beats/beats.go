// Package beats is what a witness writes down, and how: the words between witnesses and who looks at them. It imports
// next to nothing, because witnesses are started by the thousand.
package beats

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// Span is the life of one process of a run, as it wrote it down itself.
type Span struct {
	Job     string
	Part    int // the number of its slot or shard, and how many there are
	Parts   int // 0: the job has none
	Host    string
	Token   int64 // 0: a peer, which has none
	Tick    int64 // seconds since 1970; 0: none
	Attempt int
	Run     string // the same for all processes of one run, and for no other run
	Role    Role
	PID     int
	Wrapper int // the pid of what started the run; a witness, which cannot know it, writes a number that the bed counted

	Began       boottime.Instant // of the run: the first beat of its main process
	First, Last boottime.Instant // beats
	Beats       int64
	Pause       time.Duration // the longest time between two beats: stopped, starved
	Over        bool          // it came to its end by itself
}

// Lease is what no two runs may have at once: the job, or one of its slots or shards.
func (s Span) Lease() string {
	if s.Parts == 0 {
		return s.Job
	}
	return fmt.Sprintf("%s#%d", s.Job, s.Part)
}

// Role says which process of a run it is.
type Role string

// The processes of a run.
const (
	RoleMain   Role = "main"
	RoleChild  Role = "child"  // in the process group of the first
	RoleOrphan Role = "orphan" // started by a process that has ended, in a session of its own
)

// What a witness says to the bed: one line with its Span, then an Entry for each write to the ledgers, which is answered.
const (
	SocketName      = "bed.sock"
	Entry      byte = 'w'
)

// A witness's file: what changes with each beat, in numbers of fixed length, then what it said of itself when it began.
const (
	spanPrefix = "span-"
	counters   = 4 * 8
)

// Name is the name of the file of a process of a run.
func Name(s Span) string { return fmt.Sprintf("%s%s-%s", spanPrefix, s.Run, s.Role) }

// Write writes a beat. The first one writes the rest as well. A process that is killed has written all of a beat
// or nothing, as the numbers lie in one page and the kernel copies them without looking at signals.
func Write(f *os.File, s Span) error {
	b := make([]byte, 0, counters)
	over := uint64(0)
	if s.Over {
		over = 1
	}
	for _, n := range []uint64{uint64(s.Last), uint64(s.Beats), uint64(s.Pause), over} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if s.Beats == 1 {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		b = append(b, text...)
	}
	_, err := f.WriteAt(b, 0)
	return err
}

func read(path string) (Span, error) {
	var s Span
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if len(b) < counters {
		return s, fmt.Errorf("%s: %d bytes", path, len(b))
	}
	if err := json.Unmarshal(b[counters:], &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	s.Last, s.Beats, s.Pause, s.Over = boottime.Instant(number(0)), int64(number(1)), time.Duration(number(2)), number(3) == 1
	return s, nil
}

// Read returns all spans of a folder in the order of their first beats.
func Read(dir string) ([]Span, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Span
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), spanPrefix) {
			continue
		}
		s, err := read(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.PID, b.PID)) })
	return all, nil
}
