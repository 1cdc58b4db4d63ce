// Package doctor has the command that tries what a run needs on this host.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/runner"
)

// Command is `leaderrun doctor`.
func Command() *cli.Command {
	ttl := optionOf(launch.LeaseOptions(), "ttl")
	ttl.Group = ""
	return &cli.Command{
		Name: "doctor", Brief: "check a backend before trusting it",
		About: `Looks at the backend, at what its promises hang on, and at this host: who reaches whom, rights, what a
restart forgets, replicas and members, versions with known faults, clocks, how long a renewal takes
beside the TTL, by what means a run is ended here. A line for each: ok, warning or bad, and a hint what
to do. The exit code is 1 if anything is bad.

It claims, renews and ends the job "` + cli.DoctorJob + `" a few times, for which nothing is run. It is no job of
yours: status lists it only where it is named. Run it on each host, as the user and with the environment
that the job has.`,
		Examples: []cli.ExampleLine{
			{Does: "the backend that is configured", Line: "leaderrun doctor"},
			{Does: "for a TTL of half a minute", Line: "leaderrun doctor --ttl 30s"},
			{Does: "for a program", Line: "leaderrun doctor --json"},
		},
		Options: append([]cli.Option{ttl, {Name: "json", Help: "one array of objects"}}, cli.CommonOptions()...),
		Run:     runDoctor,
	}
}

// optionOf returns the option of a name.
func optionOf(options []cli.Option, name string) cli.Option {
	return options[slices.IndexFunc(options, func(o cli.Option) bool { return o.Name == name })]
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
	call  *cli.Call
	store backends.Backend
	ttl   time.Duration
}

func runDoctor(c *cli.Call) (cli.ExitStatus, error) {
	ttl, asJSON := cli.Read(c.Settings, "ttl", duration.Positive, runner.DefaultTTL), c.Settings.On("json")
	switch {
	case c.Settings.Err != nil:
		return cli.ExitStatus{}, c.Settings.Err
	case len(c.Args) > 0:
		return cli.ExitStatus{}, cli.Usage(c.Cmd.Name, fmt.Sprintf("%q: it takes no arguments", c.Args[0]), "usage: leaderrun doctor [options]")
	}
	g, named, err := c.Backend()
	if err != nil {
		return cli.ExitStatus{}, err
	}
	store, err := c.OpenStore()
	if err != nil {
		return cli.ExitStatus{}, err
	}
	defer store.Close()
	ctx, cancel := c.SignalContext()
	defer cancel()
	x := &doctorCall{call: c, store: store, ttl: ttl}
	x.name(g, named)
	x.secrets(g)
	x.examine(ctx)
	if ctx.Err() != nil { // by a signal
		return cli.ExitStatus{}, nil
	}
	x.lease()
	x.host()
	if err := cli.Show(c, asJSON, x.shown(), findingsText); err != nil {
		return cli.ExitStatus{}, err
	}
	if slices.ContainsFunc(x.Findings, func(f backends.Finding) bool { return f.Grade == backends.Bad }) {
		return cli.ExitStatus{Code: cli.CodeBad}, nil
	}
	return cli.ExitStatus{}, nil
}

// name tells which backend is looked at, and who has named it: most double runs are two hosts with two backends.
func (x *doctorCall) name(g cli.Given, named bool) {
	const what = "backend"
	text := x.store.Redacted()
	if p := x.store.Prefix(); p != "" {
		text += ", prefix " + p
	}
	if !named {
		x.Warn(what, "set --backend, LEADERRUN_BACKEND or `backend:` in "+cli.SystemConfig, "%s, because none is named: only runs on this host exclude each other", text)
		return
	}
	x.Fine(what, "%s, named by %s", text, g.Place)
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
	if hint, err := cli.CheckTTL(x.ttl, x.store.Limits()); err != nil {
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
	redact := x.call.Console.Redact
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
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", len(backends.Warning), f.Grade, width, f.What, cli.OneLine(f.Why))
		cli.WriteHint(&b, f.Remedy)
	}
	return b.String()
}
