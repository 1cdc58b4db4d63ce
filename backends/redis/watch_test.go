package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func woken(t *testing.T, what string, ch <-chan backends.News) {
	t.Helper()
	suite.On(t).News(what, ch, func(backends.News) bool { return true })
}

// TestWatch: a watch says "look again" when it stands, at a release, and after its connection broke.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	trust(t, s)
	p := servers.NewProxy(t, s.Addr())
	d, other := open(t, "redis://"+p.Addr()+"?longest-ttl=1s"), open(t, "redis://"+s.Addr()+"?longest-ttl=1s")
	g, _ := granted(t, other, claim("job", time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := d.Watch(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	woken(t, "subscribed", ch)
	finish(t, other, g)
	woken(t, "released", ch)

	requests := p.Trips()
	for range 5 {
		g, _ := granted(t, other, claim("another job", time.Second))
		finish(t, other, g)
	}
	if n := p.Trips() - requests; n != 0 || len(ch) != 0 {
		t.Errorf("other jobs cost a waiter %d requests and woke it %d times", n, len(ch))
	}

	p.Cut()
	woken(t, "connected again", ch)
	s.Restart(t, true)
	woken(t, "restarted", ch)
	g, _ = granted(t, other, claim("job", time.Second))
	finish(t, other, g)
	woken(t, "released after the restart", ch)
	cancel()
	for end := time.After(suite.Patience); ; {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-end:
			t.Fatal("the watch does not end with its context")
		}
	}
}

// TestWatchThatIsHungUp: a proxy lets everybody subscribe, and hangs up at once. Each subscription tells a standby to
// look, which costs the server a claim: they must become rarer, although each one stood.
func TestWatchThatIsHungUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	subscribed := make(chan time.Time)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if subscribe(conn) {
				select {
				case subscribed <- time.Now():
				case <-t.Context().Done():
				}
			}
			_ = conn.Close()
		}
	}()
	ch, err := open(t, "redis://"+l.Addr().String()).Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	woken(t, "subscribed", ch)
	const watches, each = 5, 2 // the client library subscribes once more before it says that a connection is gone
	var all []time.Time
	for late := time.After(suite.Patience); len(all) <= each*(watches-1); {
		select {
		case at := <-subscribed:
			all = append(all, at)
		case <-late:
			t.Fatalf("%d subscriptions", len(all))
		}
	}
	// Four pauses, each twice as long as the last and at least half as long as it may be.
	if took, want := all[len(all)-1].Sub(all[0]), (200+400+800+1600)*time.Millisecond/2; took < want {
		t.Errorf("%d watches in %v, want %v at least", watches, took, want)
	}
}

// subscribe serves a connection until somebody has subscribed.
func subscribe(conn net.Conn) bool {
	in := bufio.NewReader(conn)
	for {
		var words, length int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &words); err != nil {
			return false
		}
		command := make([]string, words)
		for i := range command {
			if _, err := fmt.Fscanf(in, "$%d\r\n%s\r\n", &length, &command[i]); err != nil {
				return false
			}
		}
		if strings.EqualFold(command[0], "subscribe") {
			_, err := fmt.Fprintf(conn, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", length, command[1])
			return err == nil
		}
		if _, err := fmt.Fprint(conn, "-ERR unknown command\r\n"); err != nil {
			return false
		}
	}
}

// TestWatchForbidden: without the right to subscribe a watch ends, and waiting goes on by timers. Without the
// right to publish, releasing still works.
func TestWatchForbidden(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{ACL: []string{
		"user deaf on >" + secret + " ~leaderrun:* resetchannels +@all",
		"user mute on >" + secret + " ~leaderrun:* allchannels +@all -publish",
	}})
	trust(t, s)
	for _, user := range []string{"deaf", "mute"} {
		d := open(t, "redis://"+user+":"+url.QueryEscape(secret)+"@"+s.Addr())
		g, _ := granted(t, d, claim(user, long))
		finish(t, d, g)
		if user == "mute" {
			continue
		}
		ch, err := d.Watch(t.Context(), user)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case _, ok := <-ch:
			if ok {
				t.Error("woken without a subscription")
			}
		case <-time.After(suite.Patience):
			t.Error("the watch goes on")
		}
	}
}
