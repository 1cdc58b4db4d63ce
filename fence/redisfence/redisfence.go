// Package redisfence fences what a job keeps in Redis or Valkey: the check of the token and the write are one Lua script,
// which the server runs as one step.
//
//	resource := redisfence.New(client, "invoices")
//	w, err := resource.Raise(ctx, run) // earlier runs are refused from now on: read only after this
//	_, err = w.Do(ctx, "SET", "{invoices}:state", "sent")
//
// The fence of resource "invoices" is the key leaderrun:fence:{invoices}, a token and nothing else. It never expires. On a
// Cluster all keys that a run writes must be in its slot: give them the resource's name as their hash tag, {invoices}:state
// and the like. A name that has a hash tag itself, as "eu{invoices}", stays as it is: its tag is invoices too. So "invoices"
// and "{invoices}" are one resource.
//
// A user of Redis needs +eval, +evalsha, +get and +set on the keys leaderrun:fence:*, and what the caller's commands and
// scripts use on theirs. Once needs +zadd, +zrem and +zremrangebyrank on leaderrun:once:*. A Cluster client asks with
// +cluster|slots and +command.
//
// What it does not promise:
//
//   - A write whose reply is lost fails with ErrUnclear. It is never sent again, whatever the client's MaxRetries and
//     MaxRedirects are: the second one would have the same token, and INCR would count twice. Look before it is done again,
//     write what may be done twice, or use Once. A hook of the client that sends a command again by itself is not seen.
//   - Replication is asynchronous. A failover may lose the fence together with the last writes, and the new master accepts
//     an earlier run until the latest one writes again. So does a server that restarts without its data. What was written
//     may be lost as well then: the fence is as durable as what it protects, and no more.
//   - FLUSHALL, DEL, and eviction by maxmemory-policy allkeys-* remove the fence. Use noeviction.
//   - It says nothing about commands that do not come through it.
//   - A run that reads from replicas may read what was there before it raised the fence.
package redisfence

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

var _ fence.Resource[*Writer] = (*Resource)(nil)

// Resource is keys in Redis that one job writes.
type Resource struct {
	client Client
	name   string
}

// Client is what sends a command: a redis.Client, with or without Sentinel, or a ClusterClient. One of another kind must not
// send a command again whose NoRetry says so.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// New returns the resource of a name, on the caller's client. A pipeline is none: the answer is needed at once. A Ring is none
// either: it moves keys when a server is away, and leaves the fence behind.
func New(client Client, name string) *Resource { return &Resource{client, name} }

// Raise implements fence.Resource.
func (x *Resource) Raise(ctx context.Context, r fence.Run) (*Writer, error) {
	if err := checkName(x.name); err != nil {
		return nil, err
	}
	if err := fence.CheckToken(r.Token); err != nil {
		return nil, err
	}
	w := &Writer{resource: x, run: r}
	if _, err := w.ask(ctx, order{wants: "raise"}); err != nil {
		return nil, err
	}
	return w, nil
}

// Writer is what a run writes with. It may be used by several goroutines at once.
//
// Its errors are a *fence.StaleError, where the run has been overtaken and nothing was written; a *fence.SetupError, and
// nothing was written either; a *CommandError, where Redis refuses what the caller wants, or a script failed; or anything
// else, where Redis could not be reached or could not do it now. In that case ErrUnclear among them says that it may have
// been done; without it nothing was.
type Writer struct {
	resource *Resource
	run      fence.Run
}

// Do runs one command, unless the run has been overtaken. The words are as in redis.Client.Do, the reply as a script sees it:
// a nil is nil and not redis.Nil, HGETALL is a list, and an integer above 2^53 is rounded. A command has 7000 words at most.
//
// What scripts may not do (MULTI, SUBSCRIBE, blocking commands) is a *CommandError. EVAL is run by Script.
//
// On a Cluster, words that have the resource's hash tag are announced as keys.
func (w *Writer) Do(ctx context.Context, words ...any) (any, error) {
	const most = 7000 // of what Lua passes on, with some room
	switch {
	case len(words) == 0:
		return nil, misused("there is no command")
	case len(words) > most:
		return nil, misused("a command of %d words: %d at most", len(words), most)
	}
	name, _ := textOf(words[0])
	switch strings.ToUpper(name) {
	case "EVAL":
		return w.eval(ctx, words[1:])
	case "EVALSHA":
		return nil, misused("EVALSHA cannot run within a script: give EVAL and the script's text")
	}
	return w.ask(ctx, order{wants: "command", keys: keysAmong(words[1:], hashTag(w.resource.Key())), args: words})
}

// eval runs a script that is written as a command: TEXT, how many keys, the keys, the arguments.
func (w *Writer) eval(ctx context.Context, words []any) (any, error) {
	const how = "EVAL wants SCRIPT NUMKEYS KEY… ARG…"
	if len(words) < 2 {
		return nil, misused(how)
	}
	lua, isText := textOf(words[0])
	count, isNumber := textOf(words[1])
	if n, ok := words[1].(int); ok {
		count, isNumber = strconv.Itoa(n), true
	}
	n, err := strconv.Atoi(count)
	rest := words[2:]
	if err != nil || !isText || !isNumber || n < 0 || n > len(rest) {
		return nil, misused(how)
	}
	keys := make([]string, n)
	for i := range keys {
		if keys[i], isText = textOf(rest[i]); !isText {
			return nil, misused(how)
		}
	}
	return w.Script(ctx, lua, keys, rest[n:]...)
}

// Script runs a Lua script, unless the run has been overtaken. Check and script are one step. The script finds in KEYS and
// ARGV what it is given here; it has no #! line. Redis takes nothing back: what a script wrote before it failed stays, and
// whatever its error was, it is a *CommandError with Begun.
func (w *Writer) Script(ctx context.Context, lua string, keys []string, args ...any) (any, error) {
	if err := checkScript(lua); err != nil {
		return nil, err
	}
	return w.ask(ctx, order{wants: "script", keys: keys, args: append([]any{lua}, args...)})
}

// Once is Script for what must happen once for the tick of the run, or for its key of --once, however often the tick is run. In
// the same step in which the script runs, job and tick are kept in a sorted set, leaderrun:once:{NAME}.
// did says whether this call ran the script; false: it ran before, in this run or an earlier one. After ErrUnclear call it
// again: that does no harm. A script that fails does not count, but what it wrote before stays. It may not SELECT another
// database.
//
// The last 1000 ticks are kept, by their tokens and without an expiry: no clock decides, the set cannot be evicted
// before the fence, and it stays below some 100 kB. A tick that is run again after 1000 others is not recognised.
func (w *Writer) Once(ctx context.Context, lua string, keys []string, args ...any) (did bool, err error) {
	if err := checkScript(lua); err != nil {
		return false, err
	}
	trigger := w.run.Trigger()
	if trigger == "" {
		return false, remedy.Misconfigured("`leaderrun run` gives it one by --schedule, --every, --tick or --once",
			"this run has neither a tick nor a key: nothing can happen once for it")
	}
	// The job is quoted: no other job and tick look the same.
	trigger = strconv.Quote(w.run.Job) + " " + trigger
	_, err = w.ask(ctx, order{
		wants: "once",
		keys:  append([]string{w.resource.happened()}, keys...),
		args:  append([]any{trigger, lua}, args...),
	})
	if errors.Is(err, errBefore) {
		return false, nil
	}
	return err == nil, err
}

// checkScript refuses what Redis would take for a script of its own kind.
func checkScript(lua string) error {
	if strings.HasPrefix(lua, "#!") {
		return misused("a script behind the fence has no #! line")
	}
	return nil
}
