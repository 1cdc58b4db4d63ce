package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/runner"
)

func doctorCommand() *command {
	ttl := optionOf(leaseOptions(), "ttl")
	ttl.group = ""
	return &command{
		name: "doctor", brief: "check a backend before trusting it",
		about: `Looks at the backend, at what its promises hang on, and at this host: who reaches whom, rights, what a
restart forgets, replicas and members, versions with known faults, clocks, how long a renewal takes
beside the TTL, by what means a run is ended here. A line for each: ok, warning or bad, and a hint what
to do. The exit code is 1 if anything is bad.

It claims, renews and ends the job "` + doctorJob + `" a few times, for which nothing is run. It is no job of
yours: status lists it only where it is named. Run it on each host, as the user and with the environment
that the job has.`,
		examples: []exampleLine{
			{"the backend that is configured", "leaderrun doctor"},
			{"for a TTL of half a minute", "leaderrun doctor --ttl 30s"},
			{"for a program", "leaderrun doctor --json"},
		},
		options: append([]option{ttl, {name: "json", help: "one array of objects"}}, commonOptions()...),
		run:     runDoctor,
	}
}

// optionOf returns the option of a name.
func optionOf(options []option, name string) option {
	return options[slices.IndexFunc(options, func(o option) bool { return o.name == name })]
}

// finding is what doctor shows of one thing. The names are a contract.
type finding struct {
	Grade  backends.Grade `json:"grade"`
	What   string         `json:"what"`
	Why    string         `json:"why"`
	Remedy string         `json:"remedy"`
}

// doctorCall is one call of doctor.
type doctorCall struct {
	checkup.Findings
	call  *call
	store backends.Backend
	ttl   time.Duration
}

func runDoctor(c *call) (ExitStatus, error) {
	ttl, asJSON := read(c.settings, "ttl", duration.Positive, runner.DefaultTTL), c.settings.on("json")
	switch {
	case c.settings.err != nil:
		return ExitStatus{}, c.settings.err
	case len(c.args) > 0:
		return ExitStatus{}, usage(c.cmd.name, fmt.Sprintf("%q: it takes no arguments", c.args[0]), "usage: leaderrun doctor [options]")
	}
	g, named, err := c.backend()
	if err != nil {
		return ExitStatus{}, err
	}
	store, err := c.openStore()
	if err != nil {
		return ExitStatus{}, err
	}
	defer store.Close()
	ctx, cancel := c.context()
	defer cancel()
	x := &doctorCall{call: c, store: store, ttl: ttl}
	x.name(g, named)
	x.secrets(g)
	x.examine(ctx)
	if ctx.Err() != nil { // by a signal
		return ExitStatus{}, nil
	}
	x.lease()
	x.host()
	if err := show(c, asJSON, x.shown(), findingsText); err != nil {
		return ExitStatus{}, err
	}
	if slices.ContainsFunc(x.Findings, func(f backends.Finding) bool { return f.Grade == backends.Bad }) {
		return ExitStatus{Code: codeBad}, nil
	}
	return ExitStatus{}, nil
}

// name tells which backend is looked at, and who has named it: most double runs are two hosts with two backends.
func (x *doctorCall) name(g given, named bool) {
	const what = "backend"
	text := x.store.Redacted()
	if p := x.store.Prefix(); p != "" {
		text += ", prefix " + p
	}
	if !named {
		x.Warn(what, "set --backend, LEADERRUN_BACKEND or `backend:` in "+systemConfig, "%s, because none is named: only runs on this host exclude each other", text)
		return
	}
	x.Fine(what, "%s, named by %s", text, g.place)
}

// examine lets the driver look at the store, and then tries a run, where there is somebody to ask.
func (x *doctorCall) examine(ctx context.Context) {
	found := x.store.Examine(ctx, x.ttl)
	x.Findings = append(x.Findings, found...)
	silent := func(f backends.Finding) bool { return f.What == checkup.Reachable && f.Grade == backends.Bad }
	if !slices.ContainsFunc(found, silent) {
		x.tryRun(ctx)
	}
}

// lease says what the TTL comes to.
func (x *doctorCall) lease() {
	const what = "ttl"
	if hint, err := checkTTL(x.ttl, x.store.Limits()); err != nil {
		x.Bad(what, hint, "%v", err)
		return
	}
	plan, err := runner.NewTimeline(x.ttl, -1)
	if err != nil {
		x.Bad(what, fmt.Sprintf("use --ttl %v or more", runner.MinTTL), "%v", err)
		return
	}
	silence := time.Duration(plan.Deadline(0).Term)
	x.Fine(what, "%v: renewed every %v; a run is ended %v after the last renewal", x.ttl, (x.ttl / 3).Round(time.Millisecond), silence)
	x.Fine("take-over", "a standby within %v of the last renewal of a holder that died", x.store.Limits().TakeOver(x.ttl).Round(time.Millisecond))
}

// shown are the findings as they are shown.
func (x *doctorCall) shown() (all []finding) {
	redact := x.call.console.redact
	for _, f := range x.Findings {
		all = append(all, finding{f.Grade, f.What, redact(f.Why), redact(f.Remedy)})
	}
	return all
}

func findingsText(all []finding) string {
	var b strings.Builder
	width := 0
	for _, f := range all {
		width = max(width, len(f.What))
	}
	for _, f := range all {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", len(backends.Warning), f.Grade, width, f.What, oneLine(f.Why))
		writeHint(&b, f.Remedy)
	}
	return b.String()
}
