package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

const (
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
}

func cronCommand(args []string) error {
	flags := newMeasuring("cron", cronPeer)
	list := flags.String("jobs", "10,1000,10000", "how many jobs are due at once; several numbers are measured one after the other")
	ticks := flags.Int("ticks", 3, fmt.Sprintf("ticks of each way; %d at most with %d jobs and more", ticksOfMany, manyJobs))
	if err := flags.Parse(args); err != nil {
		return err
	}
	sizes, err := numbers(*list)
	if err != nil {
		return fmt.Errorf("-jobs: %w", err)
	}
	r := newReport()
	return flags.present(r, servers.Outside(func(t testing.TB) error { return measureCron(t, r, sizes, *ticks, *flags.only) }))
}

// numbers reads a list of positive numbers.
func numbers(list string) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no such number", word)
		}
		all = append(all, n)
	}
	return all, nil
}

// measureCron measures ticks of as many jobs as sizes says, of each way whose name fits.
func measureCron(t testing.TB, r *report, sizes []int, ticks int, only string) error {
	t.Helper()
	fits, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	b := &cronBench{dir: t.TempDir()}
	if err := b.prepare(t); err != nil {
		return err
	}
	b.ways = slices.DeleteFunc(b.ways, func(w cronWay) bool { return w.name != cronPeer && !fits.MatchString(w.name) })
	for _, jobs := range sizes {
		if err := b.measure(r, jobs, ticks); err != nil {
			return err
		}
	}
	return b.guardians(r)
}

// prepare builds what is needed, starts a Redis, and lists what is compared.
func (b *cronBench) prepare(t testing.TB) error {
	t.Helper()
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
	if err := redisStore.missing(); err != nil {
		fmt.Printf("%s is not measured: %v\n", redisStore.name, err)
		return nil
	}
	url, addr := redisStore.start(t)
	// The first run waits out the quarantine of a Redis that has just started.
	if _, err := spend([]string{leaderrun, "run", "--backend", url, "bench", "true"}); err != nil {
		return err
	}
	info := dialRedis(addr)
	b.ways = append(b.ways,
		cronWay{name: "leaderrun, Redis", daemons: 1, words: daemon(url), redis: info},
		cronWay{name: "three leaderruns, Redis", daemons: 3, words: daemon(url), redis: info})
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

// measure gives every way its ticks, in turns.
func (b *cronBench) measure(r *report, jobs, ticks int) error {
	if jobs >= manyJobs {
		ticks = min(ticks, ticksOfMany)
	}
	for range ticks {
		for _, w := range b.ways {
			t, err := b.turn(w, jobs)
			if err != nil {
				return fmt.Errorf("%s, %d jobs: %w", w.name, jobs, err)
			}
			t.note(r, w, jobs)
		}
	}
	return nil
}
