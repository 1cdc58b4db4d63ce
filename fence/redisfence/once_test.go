package redisfence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/test/servers"
)

const count = "return redis.call('INCR', KEYS[1])"

func TestOnce(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
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

// From another database the mark would not be taken back, and what failed would count as done. Or one that is right would be.
func TestOnceStaysInItsDatabase(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	other := raise(t, New(open(t, s.Addr(), func(o *redis.Options) { o.DB = 1 }), "r"), 1)
	another := &Writer{resource: other.resource, run: fence.Run{Token: 1, Once: "of this database only"}}
	for _, there := range []*Writer{other, another} {
		if did, err := there.Once(t.Context(), "", nil); !did || err != nil {
			t.Fatal(did, err)
		}
	}
	w := raise(t, New(open(t, s.Addr()), "r"), 1)
	for _, leave := range []string{
		"redis.call('SELECT', 1) error('mine')", "redis.pcall('select', '1') error('mine')", "redis.call('SWAPDB', 0, 1) error('mine')",
		"return redis.pcall('SELECT', 1)", "redis.call()",
	} {
		did, err := w.Once(t.Context(), leave, nil)
		if failed, ok := errors.AsType[*CommandError](err); did || !ok || !failed.Begun {
			t.Errorf("%s: %v, %v", leave, did, err)
		}
		for _, there := range []*Writer{other, another} {
			if did, err := there.Once(t.Context(), "", nil); did || err != nil {
				t.Errorf("%s: what is done in the other database: %v, %v", leave, did, err)
			}
		}
	}
	if _, err := w.Script(t.Context(), "return redis.call('SELECT', 1)", nil); err != nil {
		t.Error(err)
	}
	const rest = "return redis.status_reply(redis.sha1hex(''))" // of what a script has from Redis
	if did, err := w.Once(t.Context(), rest, nil); !did || err != nil {
		t.Error(did, err)
	}
}

// Who may not take the mark back would have what failed count as done.
func TestOnceNeedsTheRightToTakeItBack(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{ACL: []string{"user job on >pw ~* -@all +eval +evalsha +get +set +incr +zadd +zremrangebyrank"}})
	w := raise(t, New(open(t, s.Addr(), func(o *redis.Options) { o.Username, o.Password = "job", "pw" }), "r"), 1)
	did, err := w.Once(t.Context(), count, []string{"n"})
	setup, ok := errors.AsType[*fence.SetupError](err)
	if did || !ok || setup.Kind != fence.Credentials || s.Do(t, "exists", "n", w.resource.happened()) != int64(0) {
		t.Errorf("%v, %v", did, err)
	}
}

func TestOnceNeedsATrigger(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
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
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
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
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	x := New(c, "r")
	w := raise(t, x, 1)
	c.Set(t.Context(), x.happened(), "x", 0)
	did, err := w.Once(t.Context(), count, []string{"n"})
	if _, ok := errors.AsType[*fence.SetupError](err); did || !ok || c.Exists(t.Context(), "n").Val() != 0 {
		t.Errorf("%v, %v", did, err)
	}
}
