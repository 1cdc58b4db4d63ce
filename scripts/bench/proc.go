package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// family returns a process and all below it.
func family(pid int) []int {
	all := []int{pid}
	for _, child := range servers.Children(pid) {
		all = append(all, family(child)...)
	}
	return all
}

func sleeps(pid int) bool { return nameOf(pid) == "sleep" }

// nameOf returns the name of a process, or "" if there is none.
func nameOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// pss reads the proportional set size in MB: see proc_pid_smaps(5).
func pss(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no Pss of process %d", pid)
}

// meminfo returns what the machine says of its memory, in MB: see proc_meminfo(5).
func meminfo(name string) float64 {
	text, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(text), name+":")
	var kb float64
	_, _ = fmt.Sscan(rest, &kb)
	return kb / 1024
}

// usage is what the threads of a process have used. Those that have ended do not count.
type usage struct {
	cpu     time.Duration // to the microsecond
	wakeups int           // voluntary context switches: each is a sleep that ended
}

// used returns what a process has used.
func used(pid int) (u usage, err error) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if len(threads) == 0 {
		return u, fmt.Errorf("no process %d", pid)
	}
	for _, thread := range threads {
		var ns int64
		text, _ := os.ReadFile(thread + "/schedstat")
		_, _ = fmt.Sscan(string(text), &ns)
		u.cpu += time.Duration(ns)
		text, _ = os.ReadFile(thread + "/status")
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var switches int
		_, _ = fmt.Sscan(rest, &switches)
		u.wakeups += switches
	}
	return u, nil
}

// ownCPU returns what the threads of a process have spent.
func ownCPU(pid int) (time.Duration, error) {
	u, err := used(pid)
	return u.cpu, err
}

// usedSince returns what processes used between two looks at them. Those that were not there both times do not count.
func usedSince(before, after map[int]usage) (total usage) {
	for pid, u := range after {
		if first, ok := before[pid]; ok {
			total.cpu += u.cpu - first.cpu
			total.wakeups += u.wakeups - first.wakeups
		}
	}
	return total
}

// treeCPU returns what a process has spent, and all below it that have been waited for: see proc_pid_stat(5).
func treeCPU(pid int) (time.Duration, error) {
	const (
		first, fields = 11, 4                 // utime, stime, cutime and cstime, counted from behind the name
		jiffy         = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
	)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(words) < first+fields {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	total := 0
	for _, word := range words[first : first+fields] {
		n, err := strconv.Atoi(word)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return time.Duration(total) * jiffy, nil
}
