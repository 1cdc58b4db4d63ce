package redisfence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

//go:embed fence.lua
var source string

// script is the only one: what the caller runs is its argument, so the server keeps one script whatever is run.
var script = redis.NewScript(source)

// order is what a run wants done in the step in which its token is checked.
type order struct {
	wants string
	keys  []string
	args  []any
}

// errBefore says that what is to happen once has happened.
var errBefore = errors.New("it happened before")

// ask has the server check the token and do what is wanted, and returns the reply.
func (w *Writer) ask(ctx context.Context, o order) (any, error) {
	reply, err := w.resource.send(ctx, w.run.Token, o)
	if err != nil {
		return nil, w.resource.explain(err, o)
	}
	at := func(i int) any {
		if i < len(reply) {
			return reply[i]
		}
		return nil
	}
	switch at(0) {
	case "done":
		return at(1), nil
	case "before":
		return nil, errBefore
	case "stale":
		return nil, w.stale(fmt.Sprint(at(1)))
	case "foreign":
		return nil, foreign(fmt.Sprint(at(1)))
	case "unreadable":
		return nil, misused("ERR Error compiling script: %v", at(1))
	case "failed":
		return nil, failed(serverError(fmt.Sprint(at(1))), o)
	}
	return nil, fmt.Errorf("the server's answer makes no sense: %w", ErrUnclear)
}

// sentOnce is a command that go-redis does not send again when its reply is lost: it may have been done.
type sentOnce struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (sentOnce) NoRetry() bool { return true }

// send returns what the script answers. To raise the fence twice does no harm; whatever else is asked is done once at most.
func (x *Resource) send(ctx context.Context, token int64, o order) ([]any, error) {
	keys := append([]string{x.Key()}, o.keys...)
	run := func(name, what string) *redis.Cmd {
		words := []any{name, what, len(keys)}
		for _, key := range keys {
			words = append(words, key)
		}
		words = append(words, strconv.FormatInt(token, 10), o.wants)
		cmd := redis.NewCmd(ctx, append(words, o.args...)...)
		cmd.SetFirstKeyPos(3)
		var sent redis.Cmder = sentOnce{cmd}
		if o.wants == "raise" {
			sent = cmd
		}
		if err := x.client.Process(ctx, sent); err != nil {
			cmd.SetErr(err)
		}
		return cmd
	}
	cmd := run("evalsha", script.Hash())
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") { // never of what the caller runs: its errors are answers
		cmd = run("eval", source)
	}
	return cmd.Slice()
}

func (w *Writer) stale(highest string) error {
	token, err := fence.ParseToken(highest)
	if err != nil { // above every token
		return foreign(w.resource.Key())
	}
	return &fence.StaleError{Resource: w.resource.name, Token: w.run.Token, Highest: token}
}

func foreign(key string) error {
	return remedy.Misconfigured("another program uses this key: give the resource another name, or delete the key while no run writes",
		"key %s holds something else than a fence", key)
}
