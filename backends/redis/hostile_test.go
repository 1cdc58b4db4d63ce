package redis

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// hostile are replies of a server that is broken or wants to do harm: what they announce, what they are made of, and what is
// well-formed and no answer to anything that we ask. The first one ends a process that does not refuse it.
var hostile = []struct{ name, reply string }{
	{"a string of all memory", "$9223372036854775807\r\n"},
	{"an array of many", "*2147483647\r\n"},
	{"a map", "%200000000\r\n"},
	{"many arrays", strings.Repeat("*90000\r\n", 1000)},
	{"many levels", strings.Repeat("*1\r\n", 100_000)},
	{"a line", "+" + strings.Repeat("a", 3<<19)},
	{"a large answer", "*90000\r\n" + strings.Repeat("*0\r\n", 90_000)},
	{"a map with a list as key", "%1\r\n*0\r\n:1\r\n"},
	{"nothing", "*0\r\n"},
	{"null", "$-1\r\n"},
	{"no list", "*-1\r\n"},
	{"lists of null", "*4\r\n*-1\r\n*-1\r\n*-1\r\n*-1\r\n"},
	{"a slot of no node", "*1\r\n*2\r\n:0\r\n:16383\r\n"},
	{"a slot of a node of null", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n$-1\r\n"},
	{"a slot of an empty node", "*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n"},
	{"slots beyond all", "*1\r\n*3\r\n:-9223372036854775808\r\n:9223372036854775807\r\n*2\r\n+h\r\n:99999999\r\n"},
	{"one word", "*1\r\n+h\r\n"},
	{"a number where none is", ":1\r\n"},
	{"OK", "+OK\r\n"},
	{"a verbatim string of three", "=3\r\nabc\r\n"},
	{"a moved slot", "-MOVED\r\n-MOVED 1\r\n-MOVED 1 :\r\n"},
	{"a redirection", "-ASK  \r\n"},
	{"no script", "-NOSCRIPT \r\n"},
	{"a push before nothing", ">1\r\n*0\r\n"},
	{"a message of one word", "*1\r\n$7\r\nmessage\r\n"},
	{"a message of a number", "*3\r\n$7\r\nmessage\r\n:1\r\n:2\r\n"},
	{"a message of lists", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*1\r\n:1\r\n"},
	{"a subscription of a word", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n$1\r\n1\r\n"},
	{"a pong of a number", "*2\r\n$4\r\npong\r\n:1\r\n"},
	{"a kind that is no word", "*3\r\n:1\r\n:1\r\n:1\r\n"},
}

// answering is a server that is its own Sentinel, or the one node of a Cluster. It says reply to one command, and to all after; "write" is a
// script that writes. It shows the lease of a holder.
func answering(t *testing.T, command, reply, holder string) string {
	t.Helper()
	addr, _ := servers.RedisByHand(t, func(w []string, port int) string {
		switch w[0] {
		case command:
			return reply
		case "sentinel":
			return fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n+%d\r\n", port)
		case "cluster":
			return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", port)
		case "evalsha":
			if writes := len(w) > 7; command == "wait" && writes {
				return fmt.Sprintf("*6\r\n+%s\r\n+done\r\n+1\r\n+1790000000000\r\n+1790000015000\r\n+2\r\n", w[6])
			} else if writes && command == "write" {
				return reply
			}
			if command == "wait" || command == "write" {
				return fmt.Sprintf("*14\r\n+%s\r\n+state\r\n+1\r\n+1790000000000\r\n+%s|7\r\n+1000\r\n*6\r\n+token\r\n+7\r\n"+
					"+beat\r\n+1\r\n+runs\r\n+[{\"token\":7,\"state\":\"claimed\"}]\r\n*0\r\n+a:b\r\n+7.0.15\r\n+9\r\n+0\r\n+-1\r\n+\r\n", w[6], holder)
			}
			return "-NOSCRIPT there is none\r\n"
		}
		return "-ERR unknown command\r\n"
	})
	return addr
}

// Hazard: a reply makes the client library panic in a goroutine, or takes all memory. Whatever a server says at whatever step,
// on whatever way to it, is an error.
func TestHostileReplies(t *testing.T) { // not parallel: it looks at the memory of the process
	g := backends.Grant{Claim: claim("job", long), Token: 7, TTL: long}
	claims := func(ctx context.Context, d *backends.Engine) error { _, err := d.Acquire(ctx, g.Claim); return err }
	for _, step := range []struct {
		name, command, url string
		do                 func(ctx context.Context, d *backends.Engine) error
	}{
		{"a claim", "evalsha", "redis://%s", claims},
		{"the handshake", "hello", "redis://%s", claims},
		{"the password", "auth", "redis://:secret@%s", claims},
		{"the database", "select", "redis://%s/1", claims},
		{"a script", "eval", "redis://%s", claims},
		{"the claim of a Sentinel's master", "evalsha", "redis+sentinel://%s/main", claims},
		{"a Sentinel", "sentinel", "redis+sentinel://%s/main", claims},
		{"a Cluster's node", "evalsha", "redis+cluster://%s", claims},
		{"a Cluster", "cluster", "redis+cluster://%s", claims},
		{"a renewal", "evalsha", "redis://%s", func(ctx context.Context, d *backends.Engine) error { _, err := d.Renew(ctx, g); return err }},
		{"what a renewal left", "write", "redis://%s", func(ctx context.Context, d *backends.Engine) error { _, err := d.Renew(ctx, g); return err }},
		{"what an end left", "write", "redis://%s", func(ctx context.Context, d *backends.Engine) error {
			return d.Finish(ctx, g, backends.Outcome{State: backends.Done})
		}},
		{"the replicas", "wait", "redis://%s?replicas=1", func(ctx context.Context, d *backends.Engine) error { _, err := d.Renew(ctx, g); return err }},
		{"an end", "evalsha", "redis://%s", func(ctx context.Context, d *backends.Engine) error {
			return d.Finish(ctx, g, backends.Outcome{State: backends.Done})
		}},
		{"a claim that is taken back", "evalsha", "redis://%s", func(ctx context.Context, d *backends.Engine) error { return d.Abandon(ctx, g.Claim) }},
		{"a status", "evalsha", "redis://%s", func(ctx context.Context, d *backends.Engine) error { _, err := d.Inspect(ctx, "job"); return err }},
		{"all jobs", "scan", "redis://%s", func(ctx context.Context, d *backends.Engine) error { _, err := d.Jobs(ctx); return err }},
		{"all jobs of a Cluster", "cluster", "redis+cluster://%s", func(ctx context.Context, d *backends.Engine) error { _, err := d.Jobs(ctx); return err }},
		{"a subscription", "subscribe", "redis://%s", nil},
	} {
		for _, h := range hostile {
			name, reply := h.name, h.reply
			if step.command == "scan" && name == "a large answer" || step.command == "wait" && name == "a number where none is" ||
				step.command == "subscribe" && name == "OK" {
				continue // as it should be; and a pong
			}
			if (step.command == "select" || step.command == "auth") && !refusedAs(reply) {
				continue // what is no error is taken for a yes
			}
			s, d := openStore(t, fmt.Sprintf(step.url, answering(t, step.command, reply, g.Claim.Holder.ID)))
			if step.name == "a subscription" {
				step.do = func(ctx context.Context, _ *backends.Engine) error {
					return s.Follow(ctx, "job", func(backends.News) {})
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
			start := time.Now()
			err := step.do(ctx, d)
			runtime.ReadMemStats(&after)
			switch took := (after.TotalAlloc - before.TotalAlloc) >> 20; {
			case err == nil, ctx.Err() != nil:
				t.Errorf("%s, %s: %v after %v", step.name, name, err, time.Since(start))
			case took > 64: // all that was ever allocated, by the server and its text too
				t.Errorf("%s, %s: %d MB", step.name, name, took)
			case len(err.Error()) > 2000:
				t.Errorf("%s, %s: an error of %d bytes", step.name, name, len(err.Error()))
			case backends.IsPermanent(err) && refusedAs(reply):
				t.Errorf("%s, %s: it is permanent: %v", step.name, name, err)
			}
			cancel()
			_ = d.Close()
		}
	}
}

// refusedAs says whether a reply is one that the connection refuses.
func refusedAs(reply string) bool {
	return strings.HasPrefix(reply, "$9") || strings.HasPrefix(reply, "$1") || strings.Contains(reply, "00000000\r\n") || len(reply) > 1<<20
}

// Hazard: a list that never ends, or a Cluster of more nodes than one has, takes all memory page by page.
func TestEndlessLists(t *testing.T) {
	t.Parallel()
	names := "*2000\r\n" + strings.Repeat("+leaderrun:{"+strings.Repeat("a", 400)+"}:record\r\n", 2000)
	var pages atomic.Int32
	endless, _ := servers.RedisByHand(t, func(w []string, _ int) string {
		switch {
		case w[0] != "scan":
			return "-ERR unknown command\r\n"
		case pages.Add(1) > 50: // enough to see whether there is a bound
			return "*2\r\n+0\r\n" + names
		}
		return "*2\r\n+1\r\n" + names
	})
	var masters strings.Builder
	const many = maxMasters + 1
	fmt.Fprintf(&masters, "*%d\r\n*3\r\n:0\r\n:16383\r\n*2\r\n+\r\n:1\r\n", many)
	for i := range many - 1 {
		fmt.Fprintf(&masters, "*3\r\n:%d\r\n:%d\r\n*2\r\n+h%d\r\n:1\r\n", i, i, i)
	}
	for url, want := range map[string]string{
		"redis://" + endless: "the keys of the jobs are more than",
		"redis+cluster://" + answering(t, "cluster", masters.String(), ""): "masters: 1000 at most",
	} {
		if _, err := open(t, url).Jobs(within(t, suite.Patience)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// slotsOf is the answer of a Cluster of three nodes where each slot is with another one than its neighbours.
func slotsOf(port int) string {
	var b strings.Builder
	b.WriteString("*16384\r\n")
	for i := range 16384 {
		fmt.Fprintf(&b, "*5\r\n:%d\r\n:%d\r\n", i, i)
		for n := range 3 {
			fmt.Fprintf(&b, "*4\r\n$9\r\n127.0.0.%d\r\n:%d\r\n$40\r\n%040d\r\n*2\r\n$8\r\nhostname\r\n$4\r\nhost\r\n", 1+(i+n)%3, port, n)
		}
	}
	return b.String()
}

// Hazard: a Cluster whose slots are wherever they have been moved to cannot be used.
func TestFragmentedCluster(t *testing.T) { // not parallel: it looks at the memory of the process
	addr, _ := servers.RedisByHand(t, func(w []string, port int) string {
		if w[0] == "cluster" {
			return slotsOf(port)
		}
		return "-ERR unknown command\r\n"
	})
	d, _ := openStore(t, "redis+cluster://"+addr)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all, err := d.masterResolver.masters(within(t, suite.Patience), 5)
	runtime.ReadMemStats(&after)
	if err != nil || len(all) != 16384 || !strings.HasPrefix(all.at(5), "127.0.0.3:") {
		t.Errorf("%d ranges, %v", len(all), err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 { // the server's text included
		t.Errorf("%d MB", took)
	} else {
		t.Logf("%d MB", took)
	}
}
