package jobfile

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/value"
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
		{"dir", false, "/srv/app", single(parseDir, func(j *Job) *string { return &j.Dir })},
		{"ttl", false, "15s", single(duration.Positive, func(j *Job) *time.Duration { return &j.TTL })},
		{"grace", false, "2s", single(duration.NotNegative, func(j *Job) *time.Duration { return &j.Grace })},
		{"kill_after", false, "30s", single(duration.Bound, func(j *Job) *time.Duration { return &j.KillAfter })},
		{"timeout", false, "30m", single(duration.Bound, func(j *Job) *time.Duration { return &j.Timeout })},
		{"start_deadline", false, "10m", single(duration.Deadline, func(j *Job) *time.Duration { return &j.StartDeadline })},
		{"backend_wait", false, "1m", single(duration.NotNegative, func(j *Job) *time.Duration { return &j.BackendWait })},
		{"on_lost", false, "skip", single(value.OneOf(backends.Skip, backends.Rerun), func(j *Job) *backends.Policy { return &j.OnLost })},
		{"max_attempts", false, "3", single(value.Number(1, value.Unbounded), func(j *Job) *int { return &j.MaxAttempts })},
		{"overlap", false, "forbid", single(value.OneOf(Forbid, Wait, Replace), func(j *Job) *Overlap { return &j.Overlap })},
		{"shards", true, "16", single(value.Number(1, slots.Most), func(j *Job) *int { return &j.Shards })},
		{"parallel", false, "2", single(value.Number(1, slots.Most), func(j *Job) *int { return &j.Parallel })},
		{"catch_up", false, "0", single(value.Number(0, maxCatchUp), func(j *Job) *int { return &j.CatchUp })},
		{"jitter", false, "30s", single(duration.NotNegative, func(j *Job) *time.Duration { return &j.Jitter })},
		{"retries", false, "2", single(value.Number(0, value.Unbounded), func(j *Job) *int { return &j.Retries })},
		{"retry_delay", false, "10s", single(duration.NotNegative, func(j *Job) *time.Duration { return &j.RetryDelay })},
		{"prefix", false, `"report: "`, single(parsePrefix, func(j *Job) *string { return &j.Prefix })},
	}
}

// single makes the reader of a single value.
func single[T any](parse func(string) (T, error), of func(*Job) *T) func(*yamlReader, *draft, *yaml.Node) *flaw {
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
		written, f := text(e.value)
		err := checkVariable(e.key, written)
		switch {
		case err != nil:
			y.problem(e.at.Line, what, err.Error(), "remove it")
		case f == nil:
			d.env = append(d.env, e.key+"="+written)
		case f != told:
			y.problem(e.value.Line, what+": "+e.key, f.why, `write it like `+e.key+`: "value"`)
		}
	}
	return nil
}
