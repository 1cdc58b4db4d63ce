package redisfence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/test/servers"
)

func open(t testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 2, ContextTimeoutEnabled: true}
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func raise(t testing.TB, x *Resource, token int64) *Writer {
	t.Helper()
	w, err := x.Raise(t.Context(), fence.Run{Token: token, Job: "job", Tick: "2026-11-20T12:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestInterleavings(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	reader := open(t, s.Addr())
	fencetest.Run(t, fencetest.Subject{
		Read: func(t testing.TB) string {
			text, err := reader.Get(t.Context(), "{invoices}:state").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
			return text
		},
		Writer: func(t testing.TB, r fence.Run, gate *fencetest.Gate) fencetest.Writer {
			c := redis.NewClient(&redis.Options{
				Addr: s.Addr(), Dialer: gate.Dialer(), Protocol: 2, MaxRetries: -1, PoolSize: 1, DisableIdentity: true,
				ReadTimeout: -1, WriteTimeout: -1,
			})
			var w *Writer
			return fencetest.Writer{
				Raise: func(ctx context.Context) (err error) { w, err = New(c, "invoices").Raise(ctx, r); return err },
				Write: func(ctx context.Context, value string) error {
					_, err := w.Do(ctx, "SET", "{invoices}:state", value)
					return err
				},
				Close: func() { _ = c.Close() },
			}
		},
	})
}

// Numbers of Lua are doubles: 2^53 and 2^53+1 are one to it. The script is asked past Raise, which refuses what no clock of today gives.
func TestTokensAreComparedExactly(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	const big = 1 << 53
	for i, p := range []struct{ highest, token int64 }{
		{1, 1},
		{9, 10},
		{99, 100},
		{big, big + 1},
		{big + 1, big + 2},
		{1_763_640_000_000, 1_763_640_000_001},
		{math.MaxInt64 - 1, math.MaxInt64},
		{999_999_999_999_999_999, 1_000_000_000_000_000_000},
	} {
		x := New(c, fmt.Sprint("r", i))
		raised := func(token int64) *Writer {
			w := &Writer{resource: x, run: fence.Run{Token: token}}
			if _, err := w.ask(t.Context(), order{wants: "raise"}); err != nil {
				t.Fatal(err)
			}
			return w
		}
		low, high := raised(p.highest), raised(p.token)
		_, err := low.Do(t.Context(), "SET", "k", "low")
		if stale, ok := errors.AsType[*fence.StaleError](err); p.token != p.highest &&
			(!ok || *stale != fence.StaleError{Resource: x.name, Token: p.highest, Highest: p.token}) {
			t.Errorf("%d after %d: %v", p.highest, p.token, err)
		}
		if _, err := high.Do(t.Context(), "SET", "k", "high"); err != nil {
			t.Errorf("%d after %d: %v", p.token, p.highest, err)
		}
		if got := c.Get(t.Context(), x.Key()).Val(); got != fmt.Sprint(p.token) {
			t.Errorf("the fence is %s, want %d", got, p.token)
		}
	}
}

// A token that no clock gives is refused before Redis is asked: it would lock all others out.
func TestTokenOfNoClock(t *testing.T) {
	t.Parallel()
	for _, none := range []int64{0, math.MaxInt64} {
		_, err := New(nil, "r").Raise(t.Context(), fence.Run{Token: none})
		if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Kind != fence.Configuration {
			t.Errorf("%d: got %v", none, err)
		}
	}
}

func TestStaleRunWritesNothing(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	x := New(c, "r")
	old := raise(t, x, 5)
	raise(t, x, 6)
	before := c.Keys(t.Context(), "*").Val()
	_, errDo := old.Do(t.Context(), "SET", "a", "1")
	_, errEval := old.Do(t.Context(), "eval", "redis.call('SET', KEYS[1], 1)", 1, "b")
	_, errScript := old.Script(t.Context(), "redis.call('SET', KEYS[1], 1)", []string{"c"})
	did, errOnce := old.Once(t.Context(), "redis.call('SET', KEYS[1], 1)", []string{"d"})
	_, errRaise := x.Raise(t.Context(), fence.Run{Token: 5})
	for _, err := range []error{errDo, errEval, errScript, errOnce, errRaise} {
		if _, ok := errors.AsType[*fence.StaleError](err); !ok || did {
			t.Errorf("%v", err)
		}
	}
	if after := c.Keys(t.Context(), "*").Val(); !reflect.DeepEqual(before, after) {
		t.Errorf("%v, and before %v", after, before)
	}
}

func TestFenceKeyOfAnother(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	ctx := t.Context()
	for name, set := range map[string]func(key string) error{
		"words":     func(key string) error { return c.Set(ctx, key, "busy", 0).Err() },
		"empty":     func(key string) error { return c.Set(ctx, key, "", 0).Err() },
		"zero":      func(key string) error { return c.Set(ctx, key, "0", 0).Err() },
		"padded":    func(key string) error { return c.Set(ctx, key, "01", 0).Err() },
		"decimal":   func(key string) error { return c.Set(ctx, key, "1.5", 0).Err() },
		"too large": func(key string) error { return c.Set(ctx, key, "9999999999999999999", 0).Err() },
		"a list":    func(key string) error { return c.RPush(ctx, key, "5").Err() },
	} {
		x := New(c, name)
		if err := set(x.Key()); err != nil {
			t.Fatal(err)
		}
		_, err := x.Raise(ctx, fence.Run{Token: 7})
		setup, ok := errors.AsType[*fence.SetupError](err)
		if !ok || setup.Kind != fence.Configuration || setup.Hint == "" || !strings.Contains(err.Error(), x.Key()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A fence that expires lets every earlier run through.
func TestFenceNeverExpires(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	x := New(c, "r")
	raise(t, x, 1)
	c.Expire(t.Context(), x.Key(), 1e12)
	w := raise(t, x, 2)
	if _, err := w.Do(t.Context(), "SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	if ttl := c.TTL(t.Context(), x.Key()).Val(); ttl != -1 {
		t.Errorf("it lives for %v", ttl)
	}
}

func TestAfterTheServerForgotTheFenceAWriteRaisesIt(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	x := New(c, "r")
	old, latest := raise(t, x, 1), raise(t, x, 2)
	c.FlushAll(t.Context())
	c.ScriptFlush(t.Context())
	if _, err := latest.Do(t.Context(), "SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Do(t.Context(), "SET", "k", "w"); !isStale(err) {
		t.Errorf("%v", err)
	}
}

func isStale(err error) bool {
	_, ok := errors.AsType[*fence.StaleError](err)
	return ok
}

func TestReplies(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	for _, protocol := range []int{2, 3} {
		c := open(t, s.Addr(), func(o *redis.Options) { o.Protocol = protocol })
		c.FlushAll(t.Context())
		w := raise(t, New(c, "r"), 1)
		for _, p := range []struct {
			words []any
			want  any
		}{
			{[]any{"set", "k", "v"}, "OK"},
			{[]any{"GET", "k"}, "v"},
			{[]any{"GET", "none"}, nil},
			{[]any{"INCRBY", "n", 41}, int64(41)},
			{[]any{"MGET", "k", "none", "n"}, []any{"v", nil, "41"}},
			{[]any{"HSET", "h", "f", []byte("a\x00b")}, int64(1)},
			{[]any{"HGETALL", "h"}, []any{"f", "a\x00b"}},
			{[]any{"LRANGE", "none", 0, -1}, []any{}},
			{[]any{"EVAL", "return {KEYS, ARGV, false, {ok='fine'}}", "1", "a", "b", 3}, []any{[]any{"a"}, []any{"b", "3"}, nil, "fine"}},
			{[]any{"Eval", "", 0}, nil},
		} {
			got, err := w.Do(t.Context(), p.words...)
			if err != nil || !reflect.DeepEqual(got, p.want) {
				t.Errorf("RESP%d: %v: %#v, %v", protocol, p.words, got, err)
			}
		}
	}
}

func TestScriptSeesItsOwnKeysAndArguments(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	w := raise(t, New(c, "r"), 1)
	// Nothing of ours is in its way, and nothing of it in ours.
	const lua = `local token, fence, reply = #KEYS, #ARGV, 'end'
do return {KEYS[1], KEYS[2], ARGV[1], token, fence, tostring(KEYS[3]), tostring(rawget(_G, 'highest')), tostring(rawget(_G, 'effect'))} end`
	got, err := w.Script(t.Context(), lua, []string{"a", "b"}, "x", 2, "z")
	want := []any{"a", "b", "x", int64(2), int64(3), "nil", "nil", "nil"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, err)
	}
	did, err := w.Once(t.Context(), "redis.call('RPUSH', KEYS[1], #KEYS, unpack(ARGV))", []string{"list"}, "x", "y")
	list := c.LRange(t.Context(), "list", 0, -1).Val()
	if !did || err != nil || !reflect.DeepEqual(list, []string{"1", "x", "y"}) {
		t.Errorf("%v, %v, %v", did, err, list)
	}
}

func TestManyArguments(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	w := raise(t, New(c, "r"), 1)
	words := append([]any{"RPUSH", "list"}, make([]any, 6998)...)
	if n, err := w.Do(t.Context(), words...); n != int64(6998) {
		t.Errorf("%v, %v", n, err)
	}
	_, err := w.Do(t.Context(), append(words, "one more")...)
	if failed, ok := errors.AsType[*CommandError](err); !ok || !failed.Misused {
		t.Errorf("%v", err)
	}
	n, err := w.Script(t.Context(), "return #ARGV", nil, make([]any, 100_000)...)
	if err != nil || n != int64(100_000) {
		t.Errorf("%v, %v", n, err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"invoices": "leaderrun:fence:{invoices}", "{invoices}": "leaderrun:fence:{invoices}", "eu{a}b": "leaderrun:fence:eu{a}b",
		"é ü": "leaderrun:fence:{é ü}", "": "", "{": "", "}": "", "{}": "", "a}b": "", "{}{a}": "",
	} {
		x := New(nil, name)
		err := checkName(name)
		if (err == nil) != (want != "") || err == nil && x.Key() != want {
			t.Errorf("%q: %s, %v", name, x.Key(), err)
		}
	}
}
