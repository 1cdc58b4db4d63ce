// Package fence has the commands by which a run writes to a resource that refuses a stale token, one for each kind of resource.
package fence

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/fence/redisfence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
	"github.com/leaderrun/leaderrun/internal/cli"
)

// Command is `leaderrun fence`, with its kinds.
func Command() *cli.Command {
	return &cli.Command{
		Name: "fence", Args: "KIND …", Brief: "make a resource refuse the writes of a run that was overtaken",
		About: `For the command of a run. A lease cannot call back a write that was sent before a pause, or end a run on a machine
that was frozen; what is written to can refuse it, by the token of the run. The resource keeps the highest token
that it has seen. A write with a lower one is refused in the same step in which it would be done: exit code 79,
and nothing is written. The token is that of the environment, LEADERRUN_TOKEN.

A run raises the fence before it reads what it is going to change: each kind does so first, and --raise does
only that. A resource is written by one job: tokens of two jobs say nothing about each other.`,
		Options: cli.CommonOptions(), Run: runFence, Rest: true,
		Kinds: []*cli.Command{
			fenceFileCommand(), fenceRedisCommand(), fenceS3Command(), fenceSQLCommand(), fenceHTTPCommand(),
		},
	}
}

func runFence(c *cli.Call) (cli.ExitStatus, error) {
	const hint = "`leaderrun fence --help` shows the kinds"
	if len(c.Args) == 0 {
		return cli.ExitStatus{}, cli.Usage("fence", "say what is to be protected", hint)
	}
	var words []string
	for _, kind := range c.Cmd.Kinds {
		words = append(words, kind.Word())
	}
	typed := c.Args[0]
	if scheme, _, isURL := strings.Cut(typed, "://"); isURL { // the kind was left out
		scheme, _, _ = strings.Cut(scheme, "+")
		typed = map[string]string{"rediss": "redis", "https": "http"}[scheme]
		if typed == "" {
			typed = scheme
		}
	}
	return cli.ExitStatus{}, cli.Usage(fmt.Sprintf("%q", c.Args[0]), "there is no such kind of fence", cmp.Or(cli.DidYouMean(typed, words, "fence "), hint))
}

// fenceOptions are those of every kind that writes.
func fenceOptions() []cli.Option {
	return append([]cli.Option{
		{
			Name: "resource", Value: "NAME", Group: fenceGroup, Example: "invoices",
			Help: "what is protected",
		},
		{
			Name: "raise", Bare: true, Group: fenceGroup,
			Help: "only raise the fence: earlier runs are refused from now on, and nothing\nis written. For a script, before it reads what it will change",
		},
	}, cli.CommonOptions()...)
}

const fenceGroup = "The fence"

// fencedRun is the run that this process is part of.
func fencedRun(c *cli.Call) (fence.Run, error) {
	r, err := fence.RunFrom(c.Settings.Lookup)
	if wrong, ok := errors.AsType[*fence.EnvironmentError](err); ok {
		return r, &cli.Fault{
			Code: cli.CodeUsage, What: wrong.Variable, Why: wrong.Reason, Err: err,
			Hint: "`leaderrun fence` is for the command of `leaderrun run`, which sets it",
		}
	}
	return r, err
}

// fenceFailed is the error of a resource.
func fenceFailed(what string, err error) error {
	f := &cli.Fault{Code: cli.CodeUnavailable, What: what, Why: err.Error(), Hint: cli.HintOf(err), Err: err, Written: mayBeWritten(err)}
	if _, ok := errors.AsType[*fence.StaleError](err); ok {
		f.Code, f.What = cli.CodeStale, ""
	} else if _, ok := errors.AsType[*fence.SetupError](err); ok { // others are of what cannot be reached, or cannot do it now
		f.Code = 0
	}
	return f
}

// mayBeWritten says of an error of a resource that it is another one by now, or may be.
func mayBeWritten(err error) bool {
	return errors.Is(err, filefence.ErrUnsynced) || errors.Is(err, redisfence.ErrUnclear) || errors.Is(err, s3fence.ErrUnclear)
}
