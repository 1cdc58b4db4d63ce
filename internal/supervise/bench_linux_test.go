package supervise

import (
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lifeline"
)

func BenchmarkSpawnBare(b *testing.B) {
	for b.Loop() {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGuardedRun(b *testing.B) {
	command := Command{Path: "/bin/true", Argv: []string{"true"}, Grace: time.Second}
	for b.Loop() {
		g, err := prepared(Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Start(command, far()); err != nil {
			b.Fatal(err)
		}
		for e := range g.Events() {
			if e.Kind != lifeline.Exited && e.Kind != lifeline.Dead {
				b.Error(e)
			}
		}
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
