package redis

import (
	"context"
	"net/url"
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

// TestReleaseWithoutPublish: whoever may not tell others ends runs all the same.
func TestReleaseWithoutPublish(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{ACL: []string{"user mute on >" + secret + " ~leaderrun:* allchannels +@all -publish"}})
	trust(t, s)
	d := open(t, "redis://mute:"+url.QueryEscape(secret)+"@"+s.Addr())
	g, _ := granted(t, d, claim("job", long))
	finish(t, d, g)
}
