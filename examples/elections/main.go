// Elections shows why leaderrun asks a store for a lease instead of having the hosts elect one among themselves, and what a
// lease costs: four ways to find a leader, on 3 to 50 nodes, through a crash, a pause, a slow network and a partition, in
// virtual time and from a seed.
//
//	go run ./examples/elections [-seed N] [-runs N] [-svg FILE]
//
// It prints the tables of docs/design/elections.md, and draws their picture.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 1, "what everything random is made from")
	runs := flag.Int("runs", 10, "runs of each case, each with a seed of its own")
	picture := flag.String("svg", "", "draw the numbers into this file")
	flag.Parse()
	if flag.NArg() > 0 || *runs < 1 {
		fmt.Fprintln(os.Stderr, "elections: takes -seed, -runs (at least 1) and -svg, and nothing else")
		os.Exit(2)
	}
	rows := measure(*seed, *runs, sizes...)
	for _, n := range tabled {
		fmt.Println(troubleTable(rows, n))
	}
	fmt.Print(costTable(rows))
	if *picture != "" {
		if err := os.WriteFile(*picture, []byte(draw(rows)), 0o644); err != nil { //nolint:gosec // a picture for everybody
			fmt.Fprintln(os.Stderr, "elections:", err)
			os.Exit(1)
		}
	}
}
