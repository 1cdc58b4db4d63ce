package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// spend returns how long a program takes from start to end, as its parent sees it.
func spend(words []string) (time.Duration, error) {
	cmd := exec.Command(words[0], words[1:]...)
	began := boottime.Now()
	out, err := cmd.CombinedOutput()
	d := boottime.Now().Sub(began)
	if err != nil || len(out) > 0 {
		return d, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), cmp.Or(err, errors.New("unexpected output")), out)
	}
	return d, nil
}

// stamp holds a lock for a moment.
func stamp(file string) {
	began := boottime.Now()
	time.Sleep(200 * time.Millisecond) // long enough for the next one to stand by
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d %d", began, boottime.Now()), 0o600); err != nil {
		panic(err)
	}
}

// handover starts a holder and a waiter, and returns the time from the end of the one to the start of the other.
func handover(dir string, wait []string) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var cmds [2]*exec.Cmd
	var files [2]string
	for i := range cmds {
		files[i] = filepath.Join(dir, "stamp"+strconv.Itoa(i))
		words := append(slices.Clone(wait), self, stampRole, files[i])
		cmds[i] = exec.Command(words[0], words[1:]...)
		if err := cmds[i].Start(); err != nil {
			return 0, err
		}
		if i == 0 {
			time.Sleep(70 * time.Millisecond) // the first one has the lock by now
		}
	}
	var spans [2][2]int64
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			return 0, err
		}
		text, err := os.ReadFile(files[i])
		if err != nil {
			return 0, err
		}
		if _, err := fmt.Sscan(string(text), &spans[i][0], &spans[i][1]); err != nil {
			return 0, err
		}
	}
	if spans[1][0] < spans[0][0] {
		spans[0], spans[1] = spans[1], spans[0]
	}
	return time.Duration(spans[1][0] - spans[0][1]), nil
}

// footprint returns the proportional set size, in MB, of all that a way adds to a command that sleeps.
func footprint(w way) (float64, error) {
	words := append(slices.Clone(w.run), "sleep", "1000")
	cmd := exec.Command(words[0], words[1:]...)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = cmd.Wait() }()
	var tree []int
	for range 500 {
		if tree = family(cmd.Process.Pid); slices.ContainsFunc(tree, sleeps) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(2500 * time.Millisecond) // what is needed only to start is done, and given back
	var total float64
	var errs error
	command := cmd.Process.Pid
	for _, pid := range tree {
		if sleeps(pid) {
			command = pid
			continue
		}
		mb, err := pss(pid)
		total, errs = total+mb, errors.Join(errs, err)
	}
	// Its end is the end of all.
	return total, errors.Join(errs, syscall.Kill(command, syscall.SIGKILL))
}

// family returns a process and all below it.
func family(pid int) []int {
	all := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, family(child)...)
			}
		}
	}
	return all
}

func sleeps(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text)) == "sleep"
}

// pss reads proc_pid_smaps(5).
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
