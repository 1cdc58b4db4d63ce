//go:build linux

// Freeze runs a command, with two busy loops a core beside it, and lets everything that it has started stand still at random, all at the
// same time: servers, wrappers and tests. So it shows the tests that are right only on a quiet machine.
//
//	go run ./scripts/freeze [-seed N] -- COMMAND [ARG...]
//
// Every 5 to 20 seconds all stands still for 1 to 5. Where root can make a control group, its freezer does it, which no process
// notices; elsewhere SIGSTOP, which does not reach processes that have left the tree. The exit code is the command's.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

func main() {
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "for the moments at which all stands still")
	flag.Parse()
	code, err := run(*seed, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "freeze:", err)
	}
	os.Exit(code)
}

// busy is the word with which this program is one of the busy loops.
const busy = "-busy-loop-"

// spin keeps a processor busy until this process is killed.
func spin() {
	for turns := uint64(0); ; turns++ {
		runtime.KeepAlive(turns)
	}
}

func run(seed uint64, words []string) (int, error) {
	if len(words) == 0 {
		return 2, errors.New("which command?")
	}
	if words[0] == busy {
		spin()
	}
	if err := tree.Adopt(); err != nil { // what loses its parent stays in the tree
		return 1, err
	}
	var loops []*exec.Cmd
	defer func() {
		for _, loop := range loops {
			_ = loop.Process.Kill()
		}
	}()
	for range 2 * runtime.NumCPU() {
		loop := exec.Command("/proc/self/exe", "--", busy)
		loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := loop.Start(); err != nil {
			return 1, err
		}
		loops = append(loops, loop)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	hold, done, err := freezer(cmd)
	if err != nil {
		return 1, err
	}
	defer done()
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	fmt.Fprintf(os.Stderr, "freeze: -seed %d\n", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	for {
		select {
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return max(1, exit.ExitCode()), nil
			}
			return 0, err
		case <-time.After(between(5*time.Second, 20*time.Second)):
		}
		stands := between(time.Second, 5*time.Second)
		hold(true)
		time.Sleep(stands)
		hold(false)
		fmt.Fprintf(os.Stderr, "freeze: all stood still for %.1f s\n", stands.Seconds())
	}
}

// freezer returns what lets the command and all that it starts stand still, or go on, and what is to be done at the end.
func freezer(cmd *exec.Cmd) (hold func(still bool), done func(), err error) {
	name := "leaderrun-freeze-" + strconv.Itoa(os.Getpid())
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		group := filepath.Join(root, name)
		if _, err := os.Stat(root + "/cgroup.controllers"); err != nil || os.Mkdir(group, 0o755) != nil {
			continue
		}
		dir, err := os.Open(group)
		if err != nil {
			return nil, nil, err
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		return func(still bool) {
				word := map[bool]string{true: "1", false: "0"}[still]
				_ = os.WriteFile(group+"/cgroup.freeze", []byte(word), 0)
			}, func() {
				_ = os.WriteFile(group+"/cgroup.kill", []byte("1"), 0)
				_ = dir.Close()
				_ = os.Remove(group)
			}, nil
	}
	return func(still bool) {
		signal := syscall.SIGCONT
		if still {
			signal = syscall.SIGSTOP
		}
		for _, p := range tree.List() {
			_ = syscall.Kill(p.PID, signal)
		}
	}, func() {}, nil
}
