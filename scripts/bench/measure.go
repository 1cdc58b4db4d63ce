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

// settleTime is how long a wrapper gets until what it needs only to start is done, and given back.
const settleTime = 2500 * time.Millisecond

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
func stamp(file string) error {
	began := boottime.Now()
	time.Sleep(200 * time.Millisecond) // long enough for the next one to stand by
	return os.WriteFile(file, fmt.Appendf(nil, "%d %d", began, boottime.Now()), 0o600)
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

// await asks until something is so, for half a minute at most.
func await(ready func() error) (err error) {
	const patience, pause = 30 * time.Second, 10 * time.Millisecond
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		if err = ready(); err == nil {
			return nil
		}
	}
	return err
}

// sleeper is a command that sleeps, and what a way puts before it.
type sleeper struct {
	cmd     *exec.Cmd
	command int
	between []int // the processes between the caller and the command
}

// lullaby starts a sleeper and waits until it sleeps.
func lullaby(w way) (*sleeper, error) {
	words := append(slices.Clone(w.run), "sleep", "1000")
	s := &sleeper{cmd: exec.Command(words[0], words[1:]...)}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	var tree []int
	err := await(func() error {
		if tree = family(s.cmd.Process.Pid); !slices.ContainsFunc(tree, sleeps) {
			return errors.New("the command has not started")
		}
		return nil
	})
	s.command = s.cmd.Process.Pid
	for _, pid := range tree {
		if sleeps(pid) {
			s.command = pid
		} else {
			s.between = append(s.between, pid)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.wake())
	}
	return s, nil
}

// wake ends the command, which is the end of all.
func (s *sleeper) wake() error {
	err := syscall.Kill(s.command, syscall.SIGKILL)
	_ = s.cmd.Wait() // it tells of the signal
	return err
}

// footprint returns the proportional set size, in MB, of all that a way adds to a command that sleeps.
func footprint(w way) (total float64, err error) {
	s, err := lullaby(w)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.wake()) }()
	time.Sleep(settleTime)
	for _, pid := range s.between {
		mb, err := pss(pid)
		if err != nil {
			return 0, err
		}
		total += mb
	}
	return total, nil
}

// lookAt notes what stands before the command has used.
func (s *sleeper) lookAt() (map[int]usage, error) {
	seen := map[int]usage{}
	for _, pid := range s.between {
		u, err := used(pid)
		if err != nil {
			return nil, err
		}
		seen[pid] = u
	}
	return seen, nil
}

// rest returns how often per minute all that a way adds to a command that sleeps wakes up, for all ways and as many
// spans: they sleep beside each other.
func rest(ways []way, spans int, span time.Duration) (wakeups [][]float64, err error) {
	wakeups = make([][]float64, len(ways))
	var sleepers []*sleeper
	defer func() {
		for _, s := range sleepers {
			err = errors.Join(err, s.wake())
		}
	}()
	for _, w := range ways {
		s, err := lullaby(w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		sleepers = append(sleepers, s)
	}
	time.Sleep(settleTime)
	last := make([]map[int]usage, len(ways))
	for n := range spans + 1 {
		for i := range ways {
			now, err := sleepers[i].lookAt()
			if err != nil {
				return nil, err
			}
			if n > 0 {
				wakeups[i] = append(wakeups[i], perMinute(float64(usedSince(last[i], now).wakeups), span))
			}
			last[i] = now
		}
		if n < spans {
			time.Sleep(span)
		}
	}
	return wakeups, nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func perMinute(n float64, in time.Duration) float64 { return n / in.Minutes() }
