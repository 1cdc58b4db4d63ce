// Bench measures leaderrun beside what people use in its place: flock(1), `etcdctl lock`, `consul lock`, and a
// bare spawn, all in one run on one machine. It prints tables of medians and of their ratios to flock, and to
// the peer that uses the same store. What it compares takes turns, so that a busy moment hits all alike.
//
//	go run ./scripts/bench [-n 200] [-handovers 30] [-only REGEXP]
//	go run ./scripts/bench cron [-jobs 10,1000,10000] [-ticks 3] [-only REGEXP]
//
// The second measures the daemon beside supercronic: how late the commands of many jobs start that are due at the
// same minute, and what a daemon costs when nothing is due.
//
// It builds leaderrun as it is released, and starts the servers of its own on free ports; `make servers` has
// installed or built them. Measure on an idle machine: under load the ratios shrink and mislead.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// stampRole makes this program the command of a handover: it writes when it begins and when it ends.
const stampRole = "stamp"

func main() {
	if len(os.Args) > 2 && os.Args[1] == stampRole {
		stamp(os.Args[2])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == cronWord {
		if err := benchCron(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench cron:", err)
			os.Exit(1)
		}
		return
	}
	n := flag.Int("n", 200, "runs of each way to run `true`")
	handovers := flag.Int("handovers", 30, "handovers of each way to wait")
	only := flag.String("only", "", "measure those whose name fits, beside flock")
	flag.Parse()
	if err := bench(*n, *handovers, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(n, handovers int, only string) error {
	fits, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leaderrun-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ways, stop, err := prepare(dir)
	defer stop()
	if err != nil {
		return err
	}
	ways = slices.DeleteFunc(ways, func(w way) bool { return w.name != baseline && !fits.MatchString(w.name) })
	whole := map[string][]float64{}
	for range n {
		for _, w := range ways {
			d, err := spend(append(slices.Clone(w.run), "true"))
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			whole[w.name] = append(whole[w.name], ms(d))
		}
	}
	gaps := map[string][]float64{}
	for range handovers {
		for _, w := range ways {
			if w.wait == nil {
				continue
			}
			d, err := handover(dir, w.wait)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			gaps[w.name] = append(gaps[w.name], ms(d))
		}
	}
	memory := map[string][]float64{}
	for range 5 {
		for _, w := range ways {
			mb, err := footprint(w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			memory[w.name] = append(memory[w.name], mb)
		}
	}
	table("whole process, `true` as the command", "ms", ways, whole)
	table("gap between the end of one run and the start of a waiting one", "ms", ways, gaps)
	table("memory beside a command that sleeps (PSS)", "MB", ways, memory)
	return nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// table prints medians with their quartiles, and each median as a ratio to flock's and to its peer's.
func table(title, unit string, ways []way, values map[string][]float64) {
	fmt.Printf("\n%s, %d of each\n\n", title, len(values[baseline]))
	fmt.Print("| | median | quartiles | ratio to flock | ratio to its peer |\n| --- | --- | --- | --- | --- |\n")
	for _, w := range ways {
		v := values[w.name]
		if v == nil {
			continue
		}
		median := quartile(v, 2)
		peer := ""
		if p := values[w.peer]; p != nil {
			peer = fmt.Sprintf("%.2f (%s)", median/quartile(p, 2), w.peer)
		}
		fmt.Printf("| %s | %.2f %s | %.2f to %.2f %s | %.2f | %s |\n",
			w.name, median, unit, quartile(v, 1), quartile(v, 3), unit, median/quartile(values[baseline], 2), peer)
	}
}

func quartile(v []float64, q int) float64 {
	slices.Sort(v)
	return v[(len(v)-1)*q/4]
}
