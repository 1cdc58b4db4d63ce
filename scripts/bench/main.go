// Bench measures leaderrun beside flock(1) and a bare spawn, all in one run on one machine, and prints a table
// of medians and of their ratios to flock. What it compares takes turns, so that a busy moment hits all alike.
//
//	go run ./scripts/bench [-n 200] [-handovers 30]
//
// It builds leaderrun as it is released and starts a Redis of its own on a free port. Measure on an idle
// machine: under load the ratios shrink and mislead.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// stampRole makes this program the command of a handover: it writes when it begins and when it ends.
const stampRole = "stamp"

func main() {
	if len(os.Args) > 2 && os.Args[1] == stampRole {
		stamp(os.Args[2])
		return
	}
	n := flag.Int("n", 200, "runs of each way to run `true`")
	handovers := flag.Int("handovers", 30, "handovers of each way to wait")
	flag.Parse()
	if err := bench(*n, *handovers); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// stamp holds a lock for a moment.
func stamp(file string) {
	began := boottime.Now()
	time.Sleep(150 * time.Millisecond) // long enough for the next one to stand by
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d %d", began, boottime.Now()), 0o600); err != nil {
		panic(err)
	}
}

// way is one way to run a command under a lock.
type way struct {
	name string
	run  []string // comes before the command
	wait []string // the same, but waits for the lock; nil: it cannot
}

func bench(n, handovers int) error {
	dir, err := os.MkdirTemp("", "leaderrun-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ways, stop, err := prepare(dir)
	if err != nil {
		return err
	}
	defer stop()
	whole := map[string][]time.Duration{}
	for range n {
		for _, w := range ways {
			d, err := spend(append(slices.Clone(w.run), "true"))
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			whole[w.name] = append(whole[w.name], d)
		}
	}
	gaps := map[string][]time.Duration{}
	for range handovers {
		for _, w := range ways {
			if w.wait == nil {
				continue
			}
			d, err := handover(dir, w.wait)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			gaps[w.name] = append(gaps[w.name], d)
		}
	}
	table("whole process, `true` as the command", ways, whole)
	table("gap between the end of one run and the start of a waiting one", ways, gaps)
	return nil
}

// prepare builds leaderrun, starts Redis if there is one, and lists what is compared.
func prepare(dir string) (ways []way, stop func(), err error) {
	stop = func() {}
	leaderrun := filepath.Join(dir, "leaderrun")
	built := leaderrun + ".built"
	build := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-o", built, "github.com/leaderrun/leaderrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, stop, fmt.Errorf("build: %w: %s", err, out)
	}
	if err := install(built, leaderrun); err != nil {
		return nil, stop, err
	}
	lock := filepath.Join(dir, "lock")
	ways = []way{
		{name: "bare spawn"},
		{name: "flock", run: []string{"flock", "-n", lock}, wait: []string{"flock", lock}},
		leaderrunWay("leaderrun, file", leaderrun, "file://"+dir),
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Println("redis-server is not installed: Redis is not measured")
		return ways, stop, nil
	}
	addr, redis, err := startRedis(dir)
	if err != nil {
		return nil, stop, err
	}
	// The server has just started: its quarantine is kept short.
	url := "redis://" + addr + "/?longest-ttl=15s"
	ways = append(ways, leaderrunWay("leaderrun, Redis", leaderrun, url))
	stop = func() { _ = redis.Process.Kill(); _ = redis.Wait() }
	if _, err := spend([]string{leaderrun, "run", "--backend", url, "bench", "true"}); err != nil { // waits out the quarantine
		stop()
		return nil, func() {}, err
	}
	return ways, stop, nil
}

// install copies the program, as whoever installs it does. The linker writes a file through a mapping, in single
// pages of the page cache, and a run of that takes 6 to 9% longer than one of a file that was written or read in.
func install(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o700) //nolint:gosec // it is to be executed
}

func leaderrunWay(name, binary, backend string) way {
	run := []string{binary, "run", "--backend", backend}
	return way{
		name: name, run: append(slices.Clone(run), "bench"),
		wait: append(run, "--wait", "forever", "bench"),
	}
}

func startRedis(dir string) (string, *exec.Cmd, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	redis := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	if err := redis.Start(); err != nil {
		return "", nil, err
	}
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return addr, redis, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", nil, fmt.Errorf("redis-server on %s does not answer", addr)
}

// spend returns how long a program takes from start to end, as its parent sees it.
func spend(words []string) (time.Duration, error) {
	cmd := exec.Command(words[0], words[1:]...)
	began := boottime.Now()
	out, err := cmd.CombinedOutput()
	d := boottime.Now().Sub(began)
	if err != nil || len(out) > 0 {
		return d, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), cmp.Or(err, fmt.Errorf("unexpected output")), out)
	}
	return d, nil
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
			time.Sleep(50 * time.Millisecond) // the first one has the lock by now
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

// table prints medians with their quartiles, and each median as a ratio to flock's.
func table(title string, ways []way, times map[string][]time.Duration) {
	fmt.Printf("\n%s, %d of each\n\n| | median | quartiles | ratio to flock |\n| --- | --- | --- | --- |\n", title, len(times["flock"]))
	base := quartile(times["flock"], 2)
	for _, w := range ways {
		t := times[w.name]
		if t == nil {
			continue
		}
		ms := func(q int) float64 { return quartile(t, q).Seconds() * 1000 }
		fmt.Printf("| %s | %.2f ms | %.2f to %.2f ms | %.2f |\n", w.name, ms(2), ms(1), ms(3), float64(quartile(t, 2))/float64(base))
	}
}

func quartile(t []time.Duration, q int) time.Duration {
	slices.Sort(t)
	return t[(len(t)-1)*q/4]
}
