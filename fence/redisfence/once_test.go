package redisfence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

const count = "return redis.call('INCR', KEYS[1])"

func TestOnce(t *testing.T) {
	t.Parallel()
	c := open(t, testserver.Redis(t, testserver.RedisOptions{}).Addr())
	x := New(c, "r")
	for i, p := range []struct {
		run  fence.Run
		want bool
	}{
		{fence.Run{Token: 1, Job: "a", Tick: "2026-11-20T12:00:00Z"}, true},
		{fence.Run{Token: 1, Job: "a", Tick: "2026-11-20T12:00:00Z"}, false},
		{fence.Run{Token: 2, Job: "a", Tick: "2026-11-20T12:00:00Z"}, false}, // run again after a loss
		{fence.Run{Token: 3, Job: "a", Tick: "2026-11-20T13:00:00Z"}, true},
		{fence.Run{Token: 3, Job: "b", Tick: "2026-11-20T13:00:00Z"}, true},
		{fence.Run{Token: 4, Job: "a", Once: "x"}, true},
		{fence.Run{Token: 5, Job: "a", Once: "x"}, false},
		{fence.Run{Token: 6, Job: `a" once:x`, Once: "y"}, true},
		{fence.Run{Token: 6, Job: "a", Once: `x" once:y`}, true},
	} {
		w, err := x.Raise(t.Context(), p.run)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := c.Get(t.Context(), "n").Int()
		did, err := w.Once(t.Context(), count, []string{"n"})
		after, _ := c.Get(t.Context(), "n").Int()
		if err != nil || did != p.want || (after == before+1) != p.want {
			t.Errorf("%d: %v, %v, from %d to %d", i, did, err, before, after)
		}
	}
}

func TestOnceThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := open(t, testserver.Redis(t, testserver.RedisOptions{}).Addr())
	w := raise(t, New(c, "r"), 1)
	for _, lua := range []string{
		"error('mine')", "return redis.error_reply('MINE')", "redis.call('GET')", "return nil .. 1", "error({err='MINE'})", "=",
	} {
		did, err := w.Once(t.Context(), lua, []string{"n"})
		if _, ok := errors.AsType[*CommandError](err); did || !ok {
			t.Errorf("%s: %v, %v", lua, did, err)
		}
	}
	if did, err := w.Once(t.Context(), count, []string{"n"}); !did || err != nil {
		t.Errorf("%v, %v", did, err)
	}
}

func TestOnceNeedsAnOccasion(t *testing.T) {
	t.Parallel()
	c := open(t, testserver.Redis(t, testserver.RedisOptions{}).Addr())
	w, err := New(c, "r").Raise(t.Context(), fence.Run{Token: 1, Job: "job"})
	if err != nil {
		t.Fatal(err)
	}
	did, err := w.Once(t.Context(), count, []string{"n"})
	if _, ok := errors.AsType[*fence.SetupError](err); did || !ok {
		t.Errorf("%v, %v", did, err)
	}
}

func TestOnceRemembersTheLatest(t *testing.T) {
	t.Parallel()
	c := open(t, testserver.Redis(t, testserver.RedisOptions{}).Addr())
	x := New(c, "r")
	for i := range 1010 {
		w, err := x.Raise(t.Context(), fence.Run{Token: int64(i + 1), Job: "job", Once: fmt.Sprint(i)})
		if err == nil {
			_, err = w.Once(t.Context(), "", nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := c.ZCard(t.Context(), x.happened()).Val(); n < 1000 || n > 1001 {
		t.Errorf("%d are kept", n)
	}
	w := raise(t, x, 2000)
	w.run.Once = "10"
	if did, err := w.Once(t.Context(), "", nil); did || err != nil {
		t.Errorf("the thousandth is forgotten: %v, %v", did, err)
	}
	w.run.Once = "1"
	if did, err := w.Once(t.Context(), "", nil); !did || err != nil {
		t.Errorf("%v, %v", did, err)
	}
}

func TestOnceKeyOfAnother(t *testing.T) {
	t.Parallel()
	c := open(t, testserver.Redis(t, testserver.RedisOptions{}).Addr())
	x := New(c, "r")
	w := raise(t, x, 1)
	c.Set(t.Context(), x.happened(), "x", 0)
	did, err := w.Once(t.Context(), count, []string{"n"})
	if _, ok := errors.AsType[*fence.SetupError](err); did || !ok || c.Exists(t.Context(), "n").Val() != 0 {
		t.Errorf("%v, %v", did, err)
	}
}

// forgetful loses the reply to what is sent while it is armed: the connection breaks before it comes.
type forgetful struct{ armed atomic.Bool }

func (f *forgetful) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &forgetfulConn{c, f}, err
}

type forgetfulConn struct {
	net.Conn
	f *forgetful
}

func (c *forgetfulConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // it was done
	if c.f.armed.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// The client library sends again what was not answered. The fence cannot see it: the token is the same.
func TestLostReply(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, testserver.RedisOptions{})
	for _, p := range []struct {
		retries    int
		once       bool
		count      int
		did, error bool
	}{
		{retries: -1, count: 1, error: true},
		{retries: 3, count: 2, did: true},
		{retries: 3, once: true, count: 1},
		{retries: -1, once: true, count: 1, error: true},
	} {
		f := &forgetful{}
		c := open(t, s.Addr(), func(o *redis.Options) { o.Dialer, o.MaxRetries = f.dial, p.retries })
		c.FlushAll(t.Context())
		w := raise(t, New(c, "r"), 1)
		f.armed.Store(true)
		did := true
		var err error
		if p.once {
			did, err = w.Once(t.Context(), count, []string{"n"})
		} else {
			_, err = w.Do(t.Context(), "INCR", "n")
		}
		n, _ := c.Get(t.Context(), "n").Int()
		if n != p.count || errors.Is(err, ErrUnclear) != p.error || err == nil && did != p.did {
			t.Errorf("%+v: %d, %v, %v", p, n, did, err)
		}
	}
}
