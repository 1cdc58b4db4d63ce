package redisfence

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/test/servers"
)

func TestCommandErrors(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	c.RPush(t.Context(), "list", "x")
	w := raise(t, New(c, "r"), 1)
	for _, p := range []struct {
		misused bool
		words   []any
		text    string
	}{
		{true, []any{"NOSUCH", "a"}, "ERR Unknown Redis command called from script"},
		{true, []any{"GET"}, "ERR Wrong number of args calling Redis command from script"},
		{true, []any{"MULTI"}, "ERR This Redis command is not allowed from script"},
		{true, []any{"SUBSCRIBE", "a"}, "ERR This Redis command is not allowed from script"},
		{true, []any{"BLPOP", "a", 0}, "ERR This Redis command is not allowed from script"},
		{true, []any{}, "there is no command"},
		{true, []any{"EVALSHA", "abc", 0}, "EVALSHA cannot run within a script: give EVAL and the script's text"},
		{true, []any{"EVAL", "return 1"}, "EVAL wants SCRIPT NUMKEYS KEY… ARG…"},
		{true, []any{"EVAL", "return 1", "2", "a"}, "EVAL wants SCRIPT NUMKEYS KEY… ARG…"},
		{true, []any{"EVAL", "return 1", "-1"}, "EVAL wants SCRIPT NUMKEYS KEY… ARG…"},
		{true, []any{"EVAL", "return 1", 1, 5}, "EVAL wants SCRIPT NUMKEYS KEY… ARG…"},
		{true, []any{"EVAL", "\nlocal =", 0}, "ERR Error compiling script: user_script:2: "},
		{true, []any{"EVAL", "#!lua\nreturn 1", 0}, "a script behind the fence has no #! line"},
		{false, []any{"GET", "list"}, "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{false, []any{"SET", "a", "b", "XX", "NN"}, "ERR syntax error"},
		{false, []any{"EVAL", "\nerror('mine')", 0}, "ERR user_script:2: mine"},
		{false, []any{"EVAL", "return redis.error_reply('MINE is no code of Redis')", 0}, "MINE is no code of Redis"},
	} {
		_, err := w.Do(t.Context(), p.words...)
		failed, ok := errors.AsType[*CommandError](err)
		if !ok || failed.Misused != p.misused || !strings.HasPrefix(err.Error(), p.text) {
			t.Errorf("%v: %v", p.words, err)
		}
		if len(p.words) > 0 && p.words[0] != "EVAL" && err.Error() != p.text {
			t.Errorf("%v: there is more in %q", p.words, err)
		}
	}
}

// Redis takes nothing back. What was written before a script failed stays, and the fence does.
func TestScriptThatFailsLeavesTheFenceRaised(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	x := New(c, "r")
	old := raise(t, x, 1)
	w := &Writer{resource: x, run: fence.Run{Token: 2}}
	if _, err := w.Script(t.Context(), "redis.call('SET', 'k', 1) error('mine')", nil); err == nil || isStale(err) {
		t.Fatalf("%v", err)
	}
	if _, err := old.Do(t.Context(), "SET", "k", "2"); !isStale(err) {
		t.Errorf("%v", err)
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{ACL: []string{
		"user job on >pw resetkeys ~leaderrun:fence:* ~leaderrun:once:* ~{r}:* -@all +eval +evalsha +get +set +zadd +zrem +zremrangebyrank",
		"user mute on >pw ~* -@all +get +set",
		"user reader on >pw ~* -@all +eval +evalsha +get",
		"user other on >pw ~other:* +@all",
	}})
	as := func(user, password string) *Resource {
		return New(open(t, s.Addr(), func(o *redis.Options) { o.Username, o.Password = user, password }), "r")
	}
	w := raise(t, as("job", "pw"), 1)
	if _, err := w.Do(t.Context(), "SET", "{r}:k", "v"); err != nil {
		t.Error(err)
	}
	if did, err := w.Once(t.Context(), "error('mine')", nil); did || err == nil || !strings.Contains(err.Error(), "mine") {
		t.Error(did, err)
	}
	if did, err := w.Once(t.Context(), "redis.call('SET', KEYS[1], 1)", []string{"{r}:k"}); !did || err != nil {
		t.Error(did, err)
	}
	refused := func(err error) {
		t.Helper()
		setup, ok := errors.AsType[*fence.SetupError](err)
		if !ok || setup.Kind != fence.Credentials || setup.Hint == "" || strings.Contains(err.Error(), "pw") {
			t.Errorf("%v", err)
		}
	}
	for _, words := range [][]any{{"INCR", "{r}:n"}, {"SET", "other", "v"}} {
		_, err := w.Do(t.Context(), words...)
		refused(err)
	}
	for _, x := range []*Resource{as("mute", "pw"), as("reader", "pw"), as("other", "pw"), as("job", "wrong-pw-1"), as("nobody", "pw")} {
		_, err := x.Raise(t.Context(), fence.Run{Token: 9})
		refused(err)
	}
	if got := s.Do(t, "get", "leaderrun:fence:{r}"); got != "1" {
		t.Errorf("the fence is %v", got)
	}
}

// An error of the caller's script may look like any other one. None may be told as if nothing had been written, and none may
// have the script run again.
func TestScriptThatFailedMayHaveWritten(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{ACL: []string{
		"user job on >pw resetkeys ~leaderrun:fence:* ~leaderrun:once:* ~n -@all +eval +evalsha +get +set +incr +zadd +zrem +zremrangebyrank",
	}})
	c := open(t, s.Addr(), func(o *redis.Options) { o.Username, o.Password = "job", "pw" })
	w := raise(t, New(c, "r"), 1)
	for _, p := range []struct {
		lua  string
		kind fence.SetupKind
	}{
		{"redis.call('DEL', KEYS[1])", fence.Credentials},
		{"redis.call('SET', 'other', 1)", fence.Credentials},
		{"return redis.error_reply('BUSY the queue is busy')", 0},
		{"return redis.error_reply('READONLY mine')", 0},
		{"error('unknown command in the queue')", 0},
		{"return redis.error_reply('MOVED away')", 0},
		{"return redis.error_reply('WRONGPASS mine')", 0},
		{"return redis.error_reply('NOSCRIPT mine')", 0},
		{"error('NOSCRIPT mine')", 0},
		{"redis.call('NOSUCH')", 0},
		{"error()", 0},
		{"return {err=5}", 0},
	} {
		for _, once := range []bool{false, true} {
			s.Do(t, "set", "n", "0")
			var err error
			if lua := count[len("return "):] + " " + p.lua; once {
				_, err = w.Once(t.Context(), lua, []string{"n"})
			} else {
				_, err = w.Script(t.Context(), lua, []string{"n"})
			}
			failed, ok := errors.AsType[*CommandError](err)
			_, setup := errors.AsType[*fence.SetupError](err)
			if !ok || setup || !failed.Begun || failed.Misused || failed.Kind != p.kind || !strings.HasSuffix(err.Error(), "wrote before stays") {
				t.Errorf("%s, once %v: %v", p.lua, once, err)
			}
			if strings.Contains(err.Error(), script.Hash()) {
				t.Errorf("our script shows: %v", err)
			}
			if n := s.Do(t, "get", "n"); n != "1" {
				t.Errorf("%s, once %v: it ran %v times", p.lua, once, n)
			}
		}
	}
}

// What passes is neither a mistake of the caller nor one of the setup, and nothing was done.
func TestWhatPasses(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: s})
	c := open(t, s.Addr())
	w := raise(t, New(c, "r"), 1)
	check := func(code string, err error) {
		t.Helper()
		_, setup := errors.AsType[*fence.SetupError](err)
		_, failed := errors.AsType[*CommandError](err)
		if err == nil || setup || failed || isStale(err) || errors.Is(err, ErrUnclear) || !strings.HasPrefix(err.Error(), code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	servers.Eventually(t, "the replica has the fence", func() bool {
		v, _ := replica.Try("get", "leaderrun:fence:{r}")
		return v == "1"
	})
	onReplica := raise(t, New(open(t, replica.Addr()), "r"), 1) // it changes nothing
	_, err := onReplica.Do(t.Context(), "SET", "k", "v")
	check("READONLY", err)
	_, err = New(open(t, replica.Addr()), "r").Raise(t.Context(), fence.Run{Token: 2})
	check("READONLY", err)
	if strings.Contains(err.Error(), script.Hash()) {
		t.Errorf("our script shows: %v", err)
	}

	for _, p := range []struct{ code, setting, bad, good string }{
		{"OOM", "maxmemory", "1", "0"}, {"NOREPLICAS", "min-replicas-to-write", "5", "0"},
	} {
		s.Do(t, "config", "set", p.setting, p.bad)
		_, err := w.Do(t.Context(), "SET", "k", "v")
		check(p.code, err)
		s.Do(t, "config", "set", p.setting, p.good)
	}
	if s.Do(t, "exists", "k") != int64(0) {
		t.Error("it was written")
	}
}

// A pipeline returns before anything was checked: its answer must not be taken for a yes.
func TestPipelineIsNoClient(t *testing.T) {
	t.Parallel()
	c := open(t, servers.Redis(t, servers.RedisOptions{}).Addr())
	if _, err := New(c.Pipeline(), "r").Raise(t.Context(), fence.Run{Token: 1}); err == nil {
		t.Error("it is taken for one")
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, 0)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, MaxRedirects: -1})
	defer c.Close()
	for _, name := range []string{"a", "b", "{c}", "eu{d}", "e"} { // on several nodes
		w := raise(t, New(c, name), 1)
		tag := strings.Trim(strings.TrimPrefix(name, "eu"), "{}")
		if _, err := w.Do(t.Context(), "MSET", "{"+tag+"}:k", "v", "{"+tag+"}:l", "v"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if did, err := w.Once(t.Context(), count, []string{"n{" + tag + "}"}); !did || err != nil {
			t.Errorf("%s: %v, %v", name, did, err)
		}
		_, err := w.Script(t.Context(), "return 1", []string{"{elsewhere}:k"})
		if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Hint != slotHint {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := raise(t, New(c, "a"), 1)
	var setups int
	for _, key := range []string{"{b}", "{e}", "{x1}", "{x2}", "{x3}"} { // some of them on other nodes
		if _, err := w.Do(t.Context(), "SET", key, "v"); err != nil {
			if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Hint != slotHint {
				t.Errorf("%s: %v", key, err)
			}
			setups++
		}
	}
	if setups == 0 {
		t.Error("no key was refused")
	}
}

// While a slot is moved each of two nodes has some of its keys. The new one must not make those anew that have not come yet.
func TestSlotThatIsBeingMoved(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, 0)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	defer c.Close()
	w := raise(t, New(c, "a"), 1)
	if _, err := w.Do(t.Context(), "INCRBY", "{a}:n", 50); err != nil {
		t.Fatal(err)
	}
	slot := nodes[0].Do(t, "cluster", "keyslot", "a")
	var from, to *servers.RedisServer
	for _, n := range nodes {
		if count, err := n.Try("cluster", "countkeysinslot", slot); err == nil && count != int64(0) {
			from = n
		} else {
			to = n
		}
	}
	id := func(n *servers.RedisServer) any { return n.Do(t, "cluster", "myid") }
	to.Do(t, "cluster", "setslot", slot, "importing", id(from))
	from.Do(t, "cluster", "setslot", slot, "migrating", id(to))
	from.Do(t, "migrate", "127.0.0.1", to.Port, "leaderrun:fence:{a}", 0, 10000)
	if n, err := w.Do(t.Context(), "INCR", "{a}:n"); err == nil {
		t.Errorf("the counter is %v", n)
	}
	from.Do(t, "migrate", "127.0.0.1", to.Port, "{a}:n", 0, 10000)
	for _, n := range []*servers.RedisServer{to, from} {
		n.Do(t, "cluster", "setslot", slot, "node", id(to))
	}
	if n, err := w.Do(t.Context(), "INCR", "{a}:n"); n != int64(51) {
		t.Errorf("%v, %v", n, err)
	}
}
