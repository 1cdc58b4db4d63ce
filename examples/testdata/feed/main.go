// Feed is what a container of the examples runs: a command that leaves an orphan behind, and ends when it is told.
package main

import (
	"fmt"
	"os"
	"os/exec"
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
	if err := start("fork").Wait(); err != nil {
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

func start(words ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", words...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}
