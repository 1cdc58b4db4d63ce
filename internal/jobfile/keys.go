package jobfile

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// maxCatchUp keeps a daemon that was away for long from being busy with the past only.
const maxCatchUp = 1000

// jobKey is a key of a job in a YAML file.
type jobKey struct {
	name    string
	own     bool   // may not stand under defaults
	example string // a right value
	read    func(*yamlReader, *draft, *yaml.Node) *flaw
}

// jobKeys are all of them, in the order of the documentation.
func jobKeys() []jobKey {
	return []jobKey{
		{"schedule", true, `"0 2 * * *"`, readSchedule},
		{"every", true, "15m", readEvery},
		{"timezone", false, "Europe/Berlin", readZone},
		{"command", true, "[PROGRAM, ARG]", readCommand},
		{"shell", true, `"PROGRAM ARG | PROGRAM"`, readShell},
		{"env", false, "{NAME: value}", readEnv},
		{"dir", false, "/srv/app", value(parseDir, func(j *Job) *string { return &j.Dir })},
		{"ttl", false, "15s", value(duration.Positive, func(j *Job) *time.Duration { return &j.TTL })},
		{"grace", false, "2s", value(duration.NotNegative, func(j *Job) *time.Duration { return &j.Grace })},
		{"kill_after", false, "30s", value(duration.Bound, func(j *Job) *time.Duration { return &j.KillAfter })},
		{"timeout", false, "30m", value(duration.Bound, func(j *Job) *time.Duration { return &j.Timeout })},
		{"start_deadline", false, "10m", value(duration.Deadline, func(j *Job) *time.Duration { return &j.StartDeadline })},
		{"backend_wait", false, "1m", value(duration.NotNegative, func(j *Job) *time.Duration { return &j.BackendWait })},
		{"on_lost", false, "skip", value(word(backends.Skip, backends.Rerun), func(j *Job) *backends.Policy { return &j.OnLost })},
		{"max_attempts", false, "3", value(number(1, math.MaxInt32), func(j *Job) *int { return &j.MaxAttempts })},
		{"overlap", false, "forbid", value(word(Forbid, Wait, Replace), func(j *Job) *Overlap { return &j.Overlap })},
		{"shards", true, "16", value(number(1, slots.Most), func(j *Job) *int { return &j.Shards })},
		{"parallel", false, "2", value(number(1, slots.Most), func(j *Job) *int { return &j.Parallel })},
		{"catch_up", false, "0", value(number(0, maxCatchUp), func(j *Job) *int { return &j.CatchUp })},
		{"jitter", false, "30s", value(duration.NotNegative, func(j *Job) *time.Duration { return &j.Jitter })},
		{"retries", false, "2", value(number(0, math.MaxInt32), func(j *Job) *int { return &j.Retries })},
		{"retry_delay", false, "10s", value(duration.NotNegative, func(j *Job) *time.Duration { return &j.RetryDelay })},
		{"prefix", false, `"report: "`, value(parsePrefix, func(j *Job) *string { return &j.Prefix })},
	}
}

// value makes the reader of a single value.
func value[T any](parse func(string) (T, error), of func(*Job) *T) func(*yamlReader, *draft, *yaml.Node) *flaw {
	return func(_ *yamlReader, d *draft, n *yaml.Node) *flaw {
		written, f := text(n)
		if f != nil {
			return f
		}
		v, err := parse(written)
		if err != nil {
			return &flaw{why: err.Error()}
		}
		*of(&d.job) = v
		return nil
	}
}

func word[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		var all []string
		for _, w := range words {
			if text == string(w) {
				return w, nil
			}
			all = append(all, string(w))
		}
		return "", fmt.Errorf("%q is none of %s", text, strings.Join(all, ", "))
	}
}

func number(least, most int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && n >= least && n <= most:
			return n, nil
		case most == math.MaxInt32:
			return 0, fmt.Errorf("%q is not a whole number of at least %d", text, least)
		}
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", text, least, most)
	}
}

func parseDir(text string) (string, error) {
	if !filepath.IsAbs(text) {
		return "", fmt.Errorf("%q is not an absolute path", text)
	}
	return text, nil
}

func parsePrefix(text string) (string, error) {
	if strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("%q is more than one line", text)
	}
	return text, nil
}

func readSchedule(_ *yamlReader, d *draft, n *yaml.Node) *flaw {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if nodes = n.Content; len(nodes) == 0 {
			return &flaw{why: "the list is empty"}
		}
	}
	for _, n := range nodes {
		expr, f := text(n)
		if f != nil {
			return f
		}
		d.exprs = append(d.exprs, expression{expr, n.Line})
	}
	return nil
}

func readEvery(_ *yamlReader, d *draft, n *yaml.Node) *flaw {
	written, f := text(n)
	if f != nil {
		return f
	}
	every, err := duration.Positive(written)
	if err != nil {
		return &flaw{why: err.Error()}
	}
	d.exprs = append(d.exprs, expression{"@every " + every.String(), n.Line})
	return nil
}

func readZone(y *yamlReader, d *draft, n *yaml.Node) *flaw {
	zone, f := text(n)
	if f != nil {
		return f
	}
	if why, hint := y.checkZone(zone); why != "" {
		d.zone = "UTC" // to look at the schedules all the same
		return &flaw{why: why, hint: hint}
	}
	d.zone = zone
	return nil
}

func readCommand(_ *yamlReader, d *draft, n *yaml.Node) *flaw {
	switch {
	case n.Kind == yaml.AliasNode:
		return told
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		return &flaw{why: "a single value instead of a list of words", hint: "write `command: [PROGRAM, ARG]`, or give the line to a shell: `shell: LINE`"}
	case n.Kind != yaml.SequenceNode:
		return &flaw{why: kind(n) + " instead of a list of words"}
	case len(n.Content) == 0:
		return &flaw{why: "the list is empty"}
	}
	var argv []string
	for _, n := range n.Content {
		arg, f := text(n)
		if f != nil {
			return f
		}
		argv = append(argv, arg)
	}
	if argv[0] == "" {
		return &flaw{why: "the program has no name"}
	}
	d.job.Argv = argv
	return nil
}

func readShell(_ *yamlReader, d *draft, n *yaml.Node) *flaw {
	line, f := text(n)
	switch {
	case f != nil:
		return f
	case strings.TrimSpace(line) == "":
		return &flaw{why: "the line is empty"}
	}
	d.job.Argv = []string{"sh", "-c", line}
	return nil
}

// readEnv adds to the variables of the defaults. All that is wrong with them is found.
func readEnv(y *yamlReader, d *draft, n *yaml.Node) *flaw {
	if kind(n) == "nothing" {
		return nil
	}
	what := d.what("env")
	if d.line == 0 {
		what = "defaults: env"
	}
	for _, e := range y.entries(n, what) {
		value, f := text(e.value)
		err := checkVariable(e.key)
		switch {
		case err != nil:
			y.problem(e.at.Line, what, err.Error(), "remove it")
		case f == nil:
			d.env[e.key] = value
		case f != told:
			y.problem(e.value.Line, what+": "+e.key, f.why, `write it like `+e.key+`: "value"`)
		}
	}
	return nil
}
