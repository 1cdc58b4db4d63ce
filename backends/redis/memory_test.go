package redis

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestMemory: a process that has as many requests under way as it can, each of them answered by one of the two that take most, needs
// 300 MB at most. It is a process of its own, whose peak the system tells.
func TestMemory(t *testing.T) {
	const asServer = "LEADERRUN_TEST_HOSTILE"
	if url := os.Getenv(asServer); url != "" {
		askMuch(t, url)
		return
	}
	servers.SkipShort(t) // make test runs this package with the race detector, which needs memory of its own
	if runtime.GOOS != "linux" {
		t.Skip("its peak is in /proc")
	}
	replies := map[string]string{
		"maps":  "*5800\r\n" + strings.Repeat("%1\r\n:1\r\n:1\r\n", 5800-1) + "$900000\r\n" + strings.Repeat("a", 900_000) + "\r\n",
		"lists": "*48000\r\n" + strings.Repeat("*1\r\n:1000\r\n", 48_000),
	}
	for name, reply := range replies {
		addr, _ := servers.RedisByHand(t, func(w []string, _ int) string {
			if w[0] == "hello" {
				return "-ERR unknown command\r\n"
			}
			return reply
		})
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemory$", "-test.v")
		c.Env = append(os.Environ(), asServer+"=redis://"+addr)
		out, err := c.CombinedOutput()
		peak := regexp.MustCompile(`peak (\d+) MB`).FindSubmatch(out)
		if err != nil || peak == nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		mb, _ := strconv.Atoi(string(peak[1]))
		t.Logf("%s: %d MB", name, mb)
		if mb > 300 {
			t.Errorf("%s: %d MB", name, mb)
		}
	}
}

// askMuch is the process that asks.
func askMuch(t *testing.T, url string) {
	t.Helper()
	d, err := Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
	defer cancel()
	var all sync.WaitGroup
	for range 2 * poolSize {
		all.Go(func() {
			for range 3 {
				if _, err := d.Inspect(ctx, "job"); err == nil {
					t.Error("a status was read")
				}
			}
		})
	}
	all.Wait()
	status, err := os.ReadFile("/proc/self/status")
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if err != nil || peak == nil {
		t.Fatal(err)
	}
	kB, _ := strconv.Atoi(string(peak[1]))
	fmt.Printf("peak %d MB\n", kB>>10)
}
