package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/fence/redisfence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
)

func fenceCommand() *command {
	return &command{
		name: "fence", args: "KIND …", brief: "make a resource refuse the writes of a run that was overtaken",
		about: `For the command of a run. A lease cannot call back a write that was sent before a pause, or end a run on a machine
that was frozen; what is written to can refuse it, by the token of the run. The resource keeps the highest token
that it has seen. A write with a lower one is refused in the same step in which it would be done: exit code 79,
and nothing is written. The token is that of the environment, LEADERRUN_TOKEN.

A run raises the fence before it reads what it is going to change: each kind does so first, and --raise does
only that. A resource is written by one job: tokens of two jobs say nothing about each other.`,
		options: commonOptions(), run: runFence, rest: true,
		kinds: []*command{
			fenceFileCommand(), fenceRedisCommand(), fenceS3Command(), fenceSQLCommand(), fenceHTTPCommand(),
		},
	}
}

func runFence(c *call) (ExitStatus, error) {
	const hint = "`leaderrun fence --help` shows the kinds"
	if len(c.args) == 0 {
		return ExitStatus{}, usage("fence", "say what is to be protected", hint)
	}
	var words []string
	for _, kind := range c.cmd.kinds {
		words = append(words, kind.word())
	}
	typed := c.args[0]
	if scheme, _, isURL := strings.Cut(typed, "://"); isURL { // the kind was left out
		scheme, _, _ = strings.Cut(scheme, "+")
		typed = map[string]string{"rediss": "redis", "https": "http"}[scheme]
		if typed == "" {
			typed = scheme
		}
	}
	return ExitStatus{}, usage(fmt.Sprintf("%q", c.args[0]), "there is no such kind of fence", cmp.Or(didYouMean(typed, words, "fence "), hint))
}

// fenceOptions are those of every kind that writes.
func fenceOptions() []option {
	return append([]option{
		{
			name: "resource", value: "NAME", group: fenceGroup, example: "invoices",
			help: "what is protected",
		},
		{
			name: "raise", bare: true, group: fenceGroup,
			help: "only raise the fence: earlier runs are refused from now on, and nothing\nis written. For a script, before it reads what it will change",
		},
	}, commonOptions()...)
}

const fenceGroup = "The fence"

// fencedRun is the run that this process is part of.
func (c *call) fencedRun() (fence.Run, error) {
	r, err := fence.RunFrom(c.settings.lookup)
	if wrong, ok := errors.AsType[*fence.EnvironmentError](err); ok {
		return r, &fault{
			code: codeUsage, what: wrong.Variable, why: wrong.Reason, err: err,
			hint: "`leaderrun fence` is for the command of `leaderrun run`, which sets it",
		}
	}
	return r, err
}

// mayBeWritten says of an error of a resource that it is another one by now, or may be. That matters also to who has ended us.
func mayBeWritten(err error) bool {
	return errors.Is(err, filefence.ErrUnsynced) || errors.Is(err, redisfence.ErrUnclear) || errors.Is(err, s3fence.ErrUnclear)
}

// fenceFailed is the error of a resource.
func fenceFailed(what string, err error) error {
	if _, ok := errors.AsType[*fence.StaleError](err); ok {
		return err
	}
	return &fault{code: resourceCode(err), what: what, why: err.Error(), hint: hintOf(err), err: err}
}
