package launch

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/value"
)

// RunOptions are those of run.
func RunOptions() []cli.Option {
	return slices.Concat(triggerOptions(), slotOptions(), waitOptions(), LeaseOptions(), childOptions())
}

func slotOptions() []cli.Option {
	const group = "Several runs"
	return []cli.Option{
		{
			Name: "slots", Value: "N", Bare: true, Check: cli.By(ParseSlots), Group: group, Example: "3",
			Help: "up to N runs at once, each in a slot of its own. All hosts give the\nsame N. Not with a tick or key",
		},
		{
			Name: "shards", Value: "N", Bare: true, Check: cli.By(ParseSlots), Group: group, Example: "16",
			Help: "divide a tick or key into N shards, which all hosts that come work\nthrough: each shard runs once. Without a tick or key, but with\n--wait forever: N workers, evenly on all hosts. All hosts give the\nsame N",
		},
		{
			Name: "parallel", Value: "K", Bare: true, Check: cli.By(ParseSlots), Group: group, Def: "1", Example: "2",
			Help: "how many shards this host runs at a time",
		},
	}
}

func waitOptions() []cli.Option {
	const group = "Waiting"
	return []cli.Option{
		{
			Name: "wait", Short: "w", Value: "D|forever", Def: "0", Check: cli.By(ParseWait), Words: []string{"forever"}, Group: group, Example: "10m",
			Help: "stand by that long for the job to become free. With a tick: what\n" +
				"runs for another tick is waited out, then this one runs. Without\n" +
				"this option, --on-lost rerun stands by until the tick is done",
		},
		{
			Name: "backend-wait", Value: "D", Def: "5s, with a tick or key 1m", Check: cli.By(duration.NotNegative), Group: group, Example: "30s",
			Help: "without --wait: how long to go on while the backend cannot be\nreached",
		},
		{
			Name: "prefer", Value: "HOST-PATTERN", Check: cli.By(ParseHostPattern), Group: group, Example: "'web1*'",
			Help: "hosts of such a name get the job when it is free; this one, if its\nname is another, waits a second longer. No run is ended for it",
		},
	}
}

// LeaseOptions are those of the lease.
func LeaseOptions() []cli.Option {
	const group = "The lease"
	return []cli.Option{
		{
			Name: "ttl", Value: "D", Def: "15s", Check: cli.By(duration.Positive), Group: group, Example: "30s",
			Help: "how long the lease lasts without renewal; it is renewed at a third\nof it. At least 5s, and what the backend can keep",
		},
		{
			Name: "grace", Value: "D", Def: "what fits, at most TTL/5", Check: cli.By(duration.NotNegative), Group: group, Example: "2s",
			Help: "from SIGTERM to SIGKILL when the lease is being lost",
		},
		{
			Name: "min-hold", Value: "D", Def: "0", Check: cli.By(duration.NotNegative), Group: group, Example: "1m",
			Help: "from the start of a run on, keep JOB for this host that long, also\nwhen the run ends before: only this host may start it again. Not\nwith a tick or key",
		},
	}
}

// childOptions are about COMMAND and its end.
func childOptions() []cli.Option {
	const group = "The command"
	return []cli.Option{
		{
			Name: "timeout", Value: "D", Def: "none", Check: cli.By(duration.Bound), Group: group, Example: "30m",
			Help: "end COMMAND after that long. With --retries, each start has that\nlong",
		},
		{
			Name: "kill-after", Short: "k", Value: "D", Def: "none", Check: cli.By(duration.Bound), Group: group, Example: "10s",
			Help: "from SIGTERM to SIGKILL when a signal, --timeout or `break` ends\nthe run",
		},
		{
			Name: "retries", Value: "N", Def: "0", Check: cli.By(ParseRetries), Group: group, Example: "2",
			Help: "start COMMAND again that often if it fails or --timeout ends it,\nunder the same lease and tick",
		},
		{
			Name: "retry-delay", Value: "D", Def: "10s", Check: cli.By(duration.NotNegative), Group: group, Example: "1m",
			Help: "the pause before that",
		},
		{
			Name: "conflict-exit-code", Short: "E", Value: "N", Check: cli.By(ParseCode), Group: group, Example: "100",
			Help: "the exit code where COMMAND was not run because of another run,\ninstead of 0 and 76",
		},
		{
			Name: "token-env", Value: "NAME", Def: cli.TokenVariable, Check: cli.By(ParseVariable), Group: group, Example: "FENCE_TOKEN",
			Help: "one more variable that tells COMMAND the token",
		},
		{Name: "shell", Help: "COMMAND is one line for `sh -c`", Group: group},
		{
			Name: "metrics-textfile", Value: "DIR", Def: "none", Check: cli.By(ParseDirectory), Group: group,
			Help: "add the run's metrics to a file in this directory, for the textfile\ncollector of a node exporter",
		},
		{
			Name: "ready", Value: "standby|leading", Def: "standby", Words: ReadyWords(), Check: cli.By(value.OneOf(ReadyWords()...)), Group: group,
			Help: "when systemd is told that the service is ready",
		},
	}
}

// ReadyWords are the values of --ready.
func ReadyWords() []string { return []string{ReadyStandby, readyLeading} }

// ParseCode reads an exit code.
func ParseCode(text string) (int, error) {
	code, err := strconv.Atoi(text)
	if err != nil || code < 0 || code > 255 {
		return 0, fmt.Errorf("%q is not an exit code from 0 to 255", text)
	}
	return code, nil
}

// ParseVariable reads the name of a variable that a run may set for its child: one that a shell knows, and without
// which the child still finds its programs and files.
func ParseVariable(text string) (string, error) {
	vital := []string{"PATH", "HOME", "SHELL", "USER", "LOGNAME", "IFS"}
	switch {
	case !value.IsVariable(text):
		return "", fmt.Errorf("%q is not the name of a variable", text)
	case slices.Contains(vital, text):
		return "", fmt.Errorf("%s has another meaning for the command", text)
	case strings.HasPrefix(text, cli.Prefix) && text != cli.TokenVariable:
		return "", fmt.Errorf("%s is leaderrun's own", text)
	}
	return text, nil
}

// ParseSlots reads a number of slots, or of shards.
var ParseSlots = value.Number(1, slots.Most)

// ParseHostPattern reads a pattern for names of hosts, as a shell has them for files.
func ParseHostPattern(text string) (string, error) {
	if text == "" {
		return "", cli.ErrEmpty
	}
	if _, err := path.Match(text, ""); err != nil {
		return "", fmt.Errorf("%q is not a pattern", text)
	}
	return text, nil
}
