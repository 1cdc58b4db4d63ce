package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// cronWord makes this program measure the daemon.
	cronWord = "cron"
	// cronPeer is what all daemons are compared with.
	cronPeer = "supercronic"
	// manyJobs are so many that two ticks of them are enough.
	manyJobs, ticksOfMany = 10_000, 2
	// enoughForCPU are so many jobs that hundredths of a second tell what one costs.
	enoughForCPU = 100
)

//go:embed stamp/stamp.c
var stampSource []byte

// cronWay is one way to have the jobs of a crontab run.
type cronWay struct {
	name    string
	daemons int      // that share the work
	words   []string // come before the name of the crontab
	redis   *redis   // the server that it uses; nil: none
}

// cronBench measures in a directory of its own.
type cronBench struct {
	dir, stamp string
	ways       []cronWay
	servers    []*exec.Cmd
}

func benchCron(args []string) error {
	flags := flag.NewFlagSet(cronWord, flag.ExitOnError)
	list := flags.String("jobs", "10,1000,10000", "how many jobs are due at once; several numbers are measured one after the other")
	ticks := flags.Int("ticks", 3, fmt.Sprintf("ticks of each way; %d at most with %d jobs and more", ticksOfMany, manyJobs))
	only := flags.String("only", "", "measure those whose name fits, beside "+cronPeer)
	_ = flags.Parse(args) // it exits
	fits, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var sizes []int
	for word := range strings.SplitSeq(*list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return fmt.Errorf("-jobs %s: %q is no number of jobs", *list, word)
		}
		sizes = append(sizes, n)
	}
	dir, err := os.MkdirTemp("", "leaderrun-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &cronBench{dir: dir}
	defer b.stopServers()
	if err := b.prepare(); err != nil {
		return err
	}
	b.ways = slices.DeleteFunc(b.ways, func(w cronWay) bool { return w.name != cronPeer && !fits.MatchString(w.name) })
	tellLimits()
	for _, jobs := range sizes {
		if err := b.measure(jobs, *ticks); err != nil {
			return err
		}
	}
	return b.guardians()
}

// prepare builds what is needed, starts a Redis, and lists what is compared.
func (b *cronBench) prepare() error {
	leaderrun, err := buildLeaderrun(b.dir)
	if err != nil {
		return err
	}
	if err := b.buildStamp(); err != nil {
		return err
	}
	if supercronic, err := program(cronPeer); err == nil {
		b.ways = append(b.ways, cronWay{name: cronPeer, daemons: 1, words: []string{supercronic, "-passthrough-logs"}})
	} else {
		fmt.Printf("%s is not measured: %v\n", cronPeer, err)
	}
	daemon := func(backend string) []string { return []string{leaderrun, "cron", "--backend", backend} }
	b.ways = append(b.ways, cronWay{name: "leaderrun, file", daemons: 1, words: daemon("file://" + filepath.Join(b.dir, "records"))})
	store := stores[slices.IndexFunc(stores, func(s store) bool { return s.name == "Redis" })]
	path, err := program(store.program)
	if err != nil {
		fmt.Printf("%s is not measured: %v\n", store.name, err)
		return nil
	}
	addr, server, err := store.start(path, b.dir)
	if server != nil {
		b.servers = append(b.servers, server)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", store.name, err)
	}
	// The first run waits out the quarantine of a Redis that has just started.
	if _, err := spend([]string{leaderrun, "run", "--backend", store.url(addr), "bench", "true"}); err != nil {
		return err
	}
	info, err := dialRedis(addr)
	if err != nil {
		return err
	}
	b.ways = append(b.ways,
		cronWay{name: "leaderrun, Redis", daemons: 1, words: daemon(store.url(addr)), redis: info},
		cronWay{name: "three leaderruns, Redis", daemons: 3, words: daemon(store.url(addr)), redis: info})
	return nil
}

// buildStamp compiles the command of the jobs.
func (b *cronBench) buildStamp() error {
	source := filepath.Join(b.dir, "stamp.c")
	if err := os.WriteFile(source, stampSource, 0o600); err != nil {
		return err
	}
	b.stamp = filepath.Join(b.dir, "stamp")
	if out, err := exec.Command("cc", "-O2", "-o", b.stamp, source).CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w: %s", err, out)
	}
	return nil
}

func (b *cronBench) stopServers() {
	for _, s := range b.servers {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
}

// tellLimits names what may bound how much runs at once. The daemons get our limits, and Go raises the soft one.
func tellLimits() {
	var files syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	pids, _ := os.ReadFile("/proc/sys/kernel/pid_max")
	fmt.Printf("limits: %d open files, pid_max %s\n", files.Max, strings.TrimSpace(string(pids)))
}

// measure gives every way its ticks, in turns, and prints what came of it.
func (b *cronBench) measure(jobs, ticks int) error {
	if jobs >= manyJobs {
		ticks = min(ticks, ticksOfMany)
	}
	turns := map[string][]turn{}
	for range ticks {
		for _, w := range b.ways {
			t, err := b.turn(w, jobs)
			if err != nil {
				return fmt.Errorf("%s, %d jobs: %w", w.name, jobs, err)
			}
			turns[w.name] = append(turns[w.name], t)
		}
	}
	b.printLate(jobs, ticks, turns)
	b.printCost(jobs, turns)
	return nil
}

// printLate prints how late the commands of all ticks began, and the medians of single ticks.
func (b *cronBench) printLate(jobs, ticks int, turns map[string][]turn) {
	fmt.Printf("\nfrom the tick to the start of the command, %d jobs due at once, %d tick(s) of each\n\n", jobs, ticks)
	fmt.Print("| | median | of single ticks | p99 | max | ratio to its peer: median, max | runs |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	peer := pooled(turns[cronPeer])
	for _, w := range b.ways {
		var medians []float64
		runs, twice := 0, 0
		for _, t := range turns[w.name] {
			runs, twice = runs+len(t.late), twice+t.twice
			if len(t.late) > 0 {
				medians = append(medians, percentile(t.late, 50))
			}
		}
		all := pooled(turns[w.name])
		if len(all) == 0 {
			fmt.Printf("| %s | | | | | | none of %d |\n", w.name, jobs*ticks)
			continue
		}
		ratio := ""
		if w.name != cronPeer && len(peer) > 0 {
			ratio = fmt.Sprintf("%.1f, %.1f", percentile(all, 50)/percentile(peer, 50), percentile(all, 100)/percentile(peer, 100))
		}
		fmt.Printf("| %s | %.0f ms | %.0f to %.0f ms | %.0f ms | %.0f ms | %s | %d of %d, %d twice |\n",
			w.name, percentile(all, 50), slices.Min(medians), slices.Max(medians), percentile(all, 99), percentile(all, 100),
			ratio, runs, jobs*ticks, twice)
	}
}

func pooled(turns []turn) (all []float64) {
	for _, t := range turns {
		all = append(all, t.late...)
	}
	return all
}

// printCost prints what the daemons of a way cost together: medians, but of what must not be more at any time the most.
func (b *cronBench) printCost(jobs int, turns map[string][]turn) {
	fmt.Printf("\nthe daemon with %d jobs: %v in which nothing is due, and a tick\n\n", jobs, idleSpan)
	fmt.Print("| | memory (PSS) before | after a tick | CPU, idle | requests, idle | connections, idle | at most in a tick | scripts a run | CPU a run |\n")
	fmt.Print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, w := range b.ways {
		of := func(p int, value func(turn) float64) float64 {
			var v []float64
			for _, t := range turns[w.name] {
				v = append(v, value(t))
			}
			return percentile(v, p)
		}
		fmt.Printf("| %s | %.1f MB | %.1f MB | %.1f ms ", w.name,
			of(50, func(t turn) float64 { return t.fresh.memory }),
			of(50, func(t turn) float64 { return t.idle.memory }),
			of(50, func(t turn) float64 { return ms(t.idle.cpu) }))
		if w.redis == nil {
			fmt.Print("| | | | ")
		} else {
			fmt.Printf("| %.0f | %.0f | %.0f | %.2f ",
				of(100, func(t turn) float64 { return float64(max(t.fresh.requests, t.idle.requests)) }),
				of(100, func(t turn) float64 { return float64(t.idle.connections) }),
				of(100, func(t turn) float64 { return float64(t.connections) }),
				of(50, func(t turn) float64 { return float64(t.scripts) / float64(jobs) }))
		}
		if jobs >= enoughForCPU {
			fmt.Printf("| %.1f ms ", of(50, func(t turn) float64 { return ms(t.cpu) / float64(jobs) }))
		} else {
			fmt.Print("| ")
		}
		fmt.Println("|")
	}
}

// percentile returns the value that p of 100 are not above. There is at least one.
func percentile(v []float64, p int) float64 {
	slices.Sort(v)
	return v[(len(v)-1)*p/100]
}
