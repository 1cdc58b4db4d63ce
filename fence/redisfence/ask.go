package redisfence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
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
	keys := append([]string{w.resource.Key()}, o.keys...)
	args := append([]any{strconv.FormatInt(w.run.Token, 10), o.wants}, o.args...)
	reply, err := script.Run(ctx, w.resource.client, keys, args...).Slice()
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
	}
	return nil, fmt.Errorf("the server's answer makes no sense: %w", ErrUnclear)
}

func (w *Writer) stale(highest string) error {
	token, err := fence.ParseToken(highest)
	if err != nil { // above every token
		return foreign(w.resource.Key())
	}
	return &fence.StaleError{Resource: w.resource.name, Token: w.run.Token, Highest: token}
}

func foreign(key string) error {
	return &fence.SetupError{
		Kind: fence.Configuration, Err: fmt.Errorf("key %s holds something else than a fence", key),
		Hint: "another program uses this key: give the resource another name, or delete the key while no run writes",
	}
}

// withoutPlace takes out of an error where in our script it happened: the caller has no script.
func withoutPlace(err error) error {
	failed, ok := errors.AsType[*CommandError](err)
	if !ok {
		return err
	}
	failed.text, _, _ = strings.Cut(failed.text, " script: ")
	return err
}
