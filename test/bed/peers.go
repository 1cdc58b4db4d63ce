package bed

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// The ways to run a command under a lock. Each waits until it has it.
var (
	// Leaderrun has no words of its own: what it is told depends on the job.
	Leaderrun = Way{Name: "leaderrun", Ticks: true}

	// Flock is flock(1), on one host. Its lock has no end but the process's.
	Flock = Way{Name: "flock", Words: func(r *Running, job string, _ time.Duration) []string {
		return []string{"flock", filepath.Join(r.Dir, job+".lock")}
	}}

	EtcdctlLock = Way{Name: "etcdctl lock", Words: func(r *Running, job string, ttl time.Duration) []string {
		return []string{
			program("etcdctl"), "--endpoints", strings.Join(r.Addrs, ","), "lock",
			fmt.Sprintf("--ttl=%d", int(ttl.Seconds())), job,
		}
	}}

	// ConsulLock has a session of 15 s, which cannot be told otherwise and which Consul keeps for up to twice that, and 15 s
	// of lock-delay. It knows one server.
	ConsulLock = Way{Name: "consul lock", Longest: 45 * time.Second, Words: func(r *Running, job string, _ time.Duration) []string {
		return []string{program("consul"), "lock", "-http-addr=" + r.Addrs[0], "-shell=false", "-child-exit-code", job}
	}}
)

// Ways are all of them.
var Ways = []Way{Leaderrun, Flock, EtcdctlLock, ConsulLock}

// program returns the path of a server's program; one that is missing shows when it is started.
func program(name string) string {
	path, err := servers.Binary(name)
	if err != nil {
		return name
	}
	return path
}
