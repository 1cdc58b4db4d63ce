package redisclient

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/redisconn"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

var patience = waits.Patience // only a hang exceeds it

// Hazard: a reply makes the client library panic, or takes all memory: on the way to the server, or from it.
func TestHostileReplies(t *testing.T) { // not parallel: it looks at the memory of the process
	const refusals = 5 // so many at the beginning
	replies := []string{
		"$9223372036854775807\r\n", "*9223372036854775807\r\n", "%200000000\r\n", "!1073741824\r\n", "-" + strings.Repeat("a", 3<<19),
		"*0\r\n", "*1\r\n+h\r\n", "*3\r\n+h\r\n+1\r\n+2\r\n", "*2\r\n$-1\r\n$-1\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ":1\r\n", "+OK\r\n",
		"*1\r\n*2\r\n:0\r\n:16383\r\n", "*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:1\r\n",
		"*1\r\n*3\r\n:9\r\n:-9\r\n*2\r\n+h\r\n:99999999\r\n", "-MOVED\r\n", "-MOVED 1 :\r\n", "-ASK \r\n", "-\r\n", manyNodes(),
	}
	for _, step := range []struct{ name, command, url string }{
		{"a command", "incr", "redis://%s"},
		{"the handshake", "hello", "redis://%s"},
		{"a command at a Sentinel's master", "incr", "redis+sentinel://%s/main"},
		{"a Sentinel", "sentinel", "redis+sentinel://%s/main"},
		{"a Cluster's node", "incr", "redis+cluster://%s"},
		{"a Cluster", "cluster", "redis+cluster://%s"},
	} {
		for i, reply := range replies {
			addr, _ := servers.RedisByHand(t, func(w []string, port int) string {
				switch w[0] {
				case step.command:
					return reply
				case "sentinel":
					return fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n+%d\r\n", port)
				case "cluster":
					return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", port)
				}
				return "-ERR unknown command\r\n"
			})
			c, err := Open(fmt.Sprintf(step.url, addr), "")
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			what := fmt.Sprintf("%s, %.40q", step.name, reply)
			err = c.Incr(ctx, "n").Err()
			runtime.ReadMemStats(&after)
			took := (after.TotalAlloc - before.TotalAlloc) >> 20
			answer, isAnswer := errors.AsType[redis.Error](err)
			number := reply == ":1\r\n" && step.command == "incr"
			switch {
			case ctx.Err() != nil || (err == nil) != number:
				t.Errorf("%s: %v", what, err)
			case i < refusals && !errors.Is(err, redisconn.ErrRefused) && step.command != "hello":
				t.Errorf("%s: %v, want that it is refused", what, err)
			case i < refusals && isAnswer && step.command != "hello":
				t.Errorf("%s: it is taken for an answer: %v", what, answer)
			case took > 64:
				t.Errorf("%s: %d MB", what, took)
			}
			cancel()
			_ = c.Close()
		}
	}
}

// manyNodes are the slots of a Cluster of as many nodes as a reply may have.
func manyNodes() string {
	var b strings.Builder
	const nodes = 30_000
	fmt.Fprintf(&b, "*1\r\n*%d\r\n:0\r\n:16383\r\n", nodes+2)
	for i := range nodes {
		fmt.Fprintf(&b, "*2\r\n+h%d\r\n:1\r\n", i)
	}
	return b.String()
}
