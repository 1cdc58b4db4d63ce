package supervise

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// giveBack returns the memory that shows our own program (its code and constants), for a time in which little is
// done: what is needed again comes back from the page cache, in a moment. A program that waits for hours is
// mostly pages that only its start needed. It is for the wrapper. The guardian keeps its own: it must act when
// memory is short and the disk slow.
func giveBack() {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range unchanged(string(maps), program) {
		// The addresses are those of a mapping of the kernel's, not of an object of Go's.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

type mapping struct{ start, end uintptr }

// unchanged lists the mappings of a file that cannot be written and of which no page was changed before that,
// as a linker's relocations may have done: such a page would be lost (madvise(2)). One that was changed is anonymous,
// or swapped out.
func unchanged(smaps, file string) []mapping {
	var list []mapping
	var last mapping
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 6 && strings.Contains(fields[0], "-"):
			// 00400000-00c1d000 r-xp 00000000 08:01 1234 FILE, see proc_pid_smaps(5).
			last = mapping{}
			from, to, _ := strings.Cut(fields[0], "-")
			start, errStart := strconv.ParseUint(from, 16, strconv.IntSize)
			end, errEnd := strconv.ParseUint(to, 16, strconv.IntSize)
			if errStart == nil && errEnd == nil && fields[5] == file && (fields[1] == "r-xp" || fields[1] == "r--p") {
				last = mapping{uintptr(start), uintptr(end)}
			}
		case strings.HasPrefix(line, "Anonymous:") && (len(fields) != 3 || fields[1] != "0"):
			last = mapping{}
		case strings.HasPrefix(line, "Swap:"): // comes after it
			if last.end != 0 && len(fields) == 3 && fields[1] == "0" {
				list = append(list, last)
			}
			last = mapping{}
		}
	}
	return list
}
