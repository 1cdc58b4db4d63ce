// Feed stands in for the program of which one is to run: put yours in its place. It ends when it is told, but not with
// STUBBORN in its environment. It leaves an orphan behind, as programs do: the test of this example looks who waits for it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	switch {
	case len(os.Args) == 1:
		feed()
	case os.Args[1] == "fork":
		start("orphan", fmt.Sprint(os.Getpid()))
	default:
		orphan(os.Args[2])
	}
}

func feed() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	if _, err := start("fork").Wait(); err != nil {
		panic(err)
	}
	fmt.Println("feeding")
	for range told {
		fmt.Println("told to end")
		if os.Getenv("STUBBORN") == "" {
			os.Exit(0)
		}
	}
}

// orphan waits until somebody has adopted it, and ends.
func orphan(parent string) {
	for fmt.Sprint(os.Getppid()) == parent {
		time.Sleep(time.Millisecond)
	}
	if os.Getppid() == 1 {
		fmt.Println("adopted by the first process")
	} else {
		fmt.Println("adopted by another process")
	}
}

// start starts this program again, for another of its parts.
func start(words ...string) *os.Process {
	p, err := os.StartProcess("/proc/self/exe", append([]string{"feed"}, words...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		panic(err)
	}
	return p
}
