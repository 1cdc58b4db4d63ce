package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/value"
)

// option is one flag of a command, its variable and its key in the configuration file. It is declared once;
// parsing, help, completion and the checks of files and environment are made from it.
type option struct {
	name  string             // --name
	short string             // -n; may be empty
	value string             // what the help calls the value; "": the flag is a switch
	def   string             // the default, for the help
	help  string             // one or more lines
	check func(string) error // nil: any text
	words []string           // the values that a shell may complete
	group string             // the heading of the help that it stands under; "": Options
	bare  bool               // has neither variable nor key: it is for one call
	unset bool               // has a variable and no key
	many  bool               // may be given several times; the values are lines of one text

	example string // a value, as it stands in a configuration file and on the command line; may be empty
}

const prefix = "LEADERRUN_"

// variable is the option's name in the environment, key the one in a configuration file.
func (o option) variable() string { return prefix + strings.ToUpper(o.key()) }
func (o option) key() string      { return strings.ReplaceAll(o.name, "-", "_") }

// flag is how people write the option.
func (o option) flag() string { return "--" + o.name }

// validate says what is wrong with a value, if anything is.
func (o option) validate(text string) error {
	switch {
	case o.value == "":
		_, err := parseSwitch(text)
		return err
	case o.check != nil:
		return o.check(text)
	}
	return nil
}

// by makes the check of an option from the function that reads its value.
func by[T any](parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		_, err := parse(text)
		return err
	}
}

// lines takes the values of an option apart that may be given several times.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func parseSwitch(text string) (bool, error) {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
	return on, nil
}

var (
	// They are read only.
	formats = []string{"text", "json"}
	levels  = []string{"debug", "info", "warn", "error"}
)

// commonOptions are those of every command.
func commonOptions() []option {
	return []option{
		{
			name: "backend", value: "URL", def: "file:", check: by(parseBackend), example: "redis://redis.example.com",
			help: "where leases and records are kept (see `leaderrun help backends`).\n" +
				"Hosts that share it exclude each other. A URL with a password is\n" +
				"better named by LEADERRUN_BACKEND_FILE, a file that holds it",
		},
		{
			name: "config", value: "FILE", unset: true, example: systemConfig,
			help: "read this file instead of /etc/leaderrun.yaml and the user's\nleaderrun.yaml",
		},
		{
			name: "log-format", value: "text|json", def: "text", words: formats, check: by(value.OneOf(formats...)),
			help: "json writes one object for each event to stderr",
		},
		{
			name: "log-level", value: "LEVEL", def: "warn", words: levels, check: by(value.OneOf(levels...)),
			help: "debug, info, warn or error; info tells the story of a run",
		},
		{name: "quiet", help: "errors only"},
		helpOption(),
	}
}

func helpOption() option { return option{name: "help", short: "h", bare: true, help: "show this page"} }

func parseBackend(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", errEmpty
	}
	return text, nil
}

// runOptions are those of run.
func runOptions() []option {
	return slices.Concat(triggerOptions(), slotOptions(), waitOptions(), leaseOptions(), childOptions())
}

func slotOptions() []option {
	const group = "Several runs"
	return []option{
		{
			name: "slots", value: "N", bare: true, check: by(parseSlots), group: group, example: "3",
			help: "up to N runs at once, each in a slot of its own. All hosts give the\nsame N. Not with a tick or key",
		},
		{
			name: "shards", value: "N", bare: true, check: by(parseSlots), group: group, example: "16",
			help: "divide a tick or key into N shards, which all hosts that come work\nthrough: each shard runs once. Without a tick or key, but with\n--wait forever: N workers, evenly on all hosts. All hosts give the\nsame N",
		},
		{
			name: "parallel", value: "K", bare: true, check: by(parseSlots), group: group, def: "1", example: "2",
			help: "how many shards this host runs at a time",
		},
	}
}

func waitOptions() []option {
	const group = "Waiting"
	return []option{
		{
			name: "wait", short: "w", value: "D|forever", def: "0", check: by(parseWait), words: []string{"forever"}, group: group, example: "10m",
			help: "stand by that long for the job to become free. With a tick: what\n" +
				"runs for another tick is waited out, then this one runs. Without\n" +
				"this option, --on-lost rerun stands by until the tick is done",
		},
		{
			name: "backend-wait", value: "D", def: "5s, with a tick or key 1m", check: by(duration.NotNegative), group: group, example: "30s",
			help: "without --wait: how long to go on while the backend cannot be\nreached",
		},
		{
			name: "prefer", value: "HOST-PATTERN", check: by(parseHostPattern), group: group, example: "'web1*'",
			help: "hosts of such a name get the job when it is free; this one, if its\nname is another, waits a second longer. No run is ended for it",
		},
	}
}

func leaseOptions() []option {
	const group = "The lease"
	return []option{
		{
			name: "ttl", value: "D", def: "15s", check: by(duration.Positive), group: group, example: "30s",
			help: "how long the lease lasts without renewal; it is renewed at a third\nof it. At least 5s, and what the backend can keep",
		},
		{
			name: "grace", value: "D", def: "what fits, at most TTL/5", check: by(duration.NotNegative), group: group, example: "2s",
			help: "from SIGTERM to SIGKILL when the lease is being lost",
		},
		{
			name: "min-hold", value: "D", def: "0", check: by(duration.NotNegative), group: group, example: "1m",
			help: "from the start of a run on, keep JOB for this host that long, also\nwhen the run ends before: only this host may start it again. Not\nwith a tick or key",
		},
	}
}

// childOptions are about COMMAND and its end.
func childOptions() []option {
	const group = "The command"
	return []option{
		{
			name: "timeout", value: "D", def: "none", check: by(duration.Bound), group: group, example: "30m",
			help: "end COMMAND after that long. With --retries, each start has that\nlong",
		},
		{
			name: "kill-after", short: "k", value: "D", def: "none", check: by(duration.Bound), group: group, example: "10s",
			help: "from SIGTERM to SIGKILL when a signal, --timeout or `break` ends\nthe run",
		},
		{
			name: "retries", value: "N", def: "0", check: by(parseRetries), group: group, example: "2",
			help: "start COMMAND again that often if it fails or --timeout ends it,\nunder the same lease and tick",
		},
		{
			name: "retry-delay", value: "D", def: "10s", check: by(duration.NotNegative), group: group, example: "1m",
			help: "the pause before that",
		},
		{
			name: "conflict-exit-code", short: "E", value: "N", check: by(parseCode), group: group, example: "100",
			help: "the exit code where COMMAND was not run because of another run,\ninstead of 0 and 76",
		},
		{
			name: "token-env", value: "NAME", def: tokenVariable, check: by(parseVariable), group: group, example: "FENCE_TOKEN",
			help: "one more variable that tells COMMAND the token",
		},
		{name: "shell", help: "COMMAND is one line for `sh -c`", group: group},
		{
			name: "metrics-textfile", value: "DIR", def: "none", check: by(parseDirectory), group: group,
			help: "add the run's metrics to a file in this directory, for the textfile\ncollector of a node exporter",
		},
		{
			name: "ready", value: "standby|leading", def: "standby", words: readyWords(), check: by(value.OneOf(readyWords()...)), group: group,
			help: "when systemd is told that the service is ready",
		},
	}
}

func readyWords() []string { return []string{readyStandby, readyLeading} }

// parseCode reads an exit code.
func parseCode(text string) (int, error) {
	code, err := strconv.Atoi(text)
	if err != nil || code < 0 || code > 255 {
		return 0, fmt.Errorf("%q is not an exit code from 0 to 255", text)
	}
	return code, nil
}

// parseVariable reads the name of a variable that a run may set for its child: one that a shell knows, and without
// which the child still finds its programs and files.
func parseVariable(text string) (string, error) {
	vital := []string{"PATH", "HOME", "SHELL", "USER", "LOGNAME", "IFS"}
	switch {
	case !value.IsVariable(text):
		return "", fmt.Errorf("%q is not the name of a variable", text)
	case slices.Contains(vital, text):
		return "", fmt.Errorf("%s has another meaning for the command", text)
	case strings.HasPrefix(text, prefix) && text != tokenVariable:
		return "", fmt.Errorf("%s is leaderrun's own", text)
	}
	return text, nil
}
