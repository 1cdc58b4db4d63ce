package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/all"
)

const (
	statusPatience = 10 * time.Second
	statusTries    = 4
	watchEvery     = time.Second
	clearScreen    = "\x1b[H\x1b[2J"
)

func statusCommand() *command {
	return &command{
		name: "status", args: "[JOB…]", brief: "show who runs what",
		about: `Shows for each job whether it runs, where, since when, with which token, how its last run or tick
ended, and how long it takes at worst until another host can take over from one that crashed. Without
JOB it shows every job that the backend has a record of. The exit code is 1 for an unknown job.`,
		examples: []exampleLine{
			{"all jobs", "leaderrun status"},
			{"one job, for a program", "leaderrun status --json nightly-report"},
		},
		options: append([]option{
			{name: "json", help: "one array of objects"},
			{name: "watch", help: "show it again every second"},
		}, commonOptions()...),
		run: runStatus,
	}
}

// jobStatus is what status shows of one job. The names are a contract.
type jobStatus struct {
	Job         string   `json:"job"`
	State       string   `json:"state"`
	Holder      *string  `json:"holder"`
	Host        *string  `json:"host"`
	PID         *int     `json:"pid"`
	User        *string  `json:"user"`
	Token       int64    `json:"token"`
	Since       *string  `json:"since"`         // the start of the run
	ExpiresIn   *int64   `json:"expires_in_ms"` // running: left of the lease
	FreeIn      *int64   `json:"free_in_ms"`    // vanished, quarantined: until somebody may run it
	Tick        *string  `json:"tick"`
	TickState   *string  `json:"tick_state"`
	LastState   *string  `json:"last_state"` // of the last run that ended
	LastExit    *int     `json:"last_exit"`
	LastEnded   *string  `json:"last_ended"`
	TTL         int64    `json:"ttl_ms"`
	TakeOver    int64    `json:"takeover_ms"` // at worst, after a crash
	Backend     string   `json:"backend"`
	Prefix      string   `json:"prefix"`
	Notes       []string `json:"notes"`
	BreakAsked  bool     `json:"break_requested"`
	sinceMillis int64
}

// The states of a job.
const (
	stateRunning     = "running"
	stateFree        = "free"
	stateVanished    = "vanished"    // a lease is gone that was not released: its holder may still live
	stateQuarantined = "quarantined" // the store may have forgotten a lease
)

func runStatus(c *call) (End, error) {
	asJSON, watch := c.settings.on("json"), c.settings.on("watch")
	if err := c.settings.err; err != nil {
		return End{}, err
	}
	store, err := c.openStore()
	if err != nil {
		return End{}, err
	}
	defer store.Close()
	ctx, cancel := c.context()
	defer cancel()
	for {
		if err := c.showStatus(ctx, store, asJSON, watch); err != nil || !watch {
			return End{}, err
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return End{}, nil
		}
	}
}

func (c *call) showStatus(ctx context.Context, store all.Store, asJSON, watch bool) error {
	jobs, unknown, err := inspectPatiently(ctx, store, c.args)
	if err != nil {
		return asked(err)
	}
	var b strings.Builder
	if watch && c.terminal {
		b.WriteString(clearScreen)
	}
	switch {
	case asJSON:
		err = writeJSON(&b, jobs)
	case len(jobs) > 0:
		err = writeTable(&b, jobs, time.Now())
	case len(unknown) == 0:
		b.WriteString("no jobs yet\n")
	}
	if err == nil {
		err = c.print(b.String())
	}
	if err != nil || len(unknown) == 0 {
		return err
	}
	return &fault{
		code: codeUnknownJob, what: "unknown job", why: strings.Join(unknown, ", "), err: backends.ErrUnknownJob,
		hint: fmt.Sprintf("asked %s, prefix %q", store.Redacted(), store.Prefix()),
	}
}

// asked makes an error of a backend that was asked something a fault with an exit code. An error that is
// not permanent means that there was no answer.
func asked(err error) error {
	if _, ok := errors.AsType[*backends.PermanentError](err); ok {
		return err
	}
	return &fault{code: codeUnavailable, what: "the backend cannot be reached", why: err.Error(), err: err}
}

// inspectPatiently asks a few times: where a store has several hosts, the next request goes to another one.
func inspectPatiently(ctx context.Context, store all.Store, names []string) (jobs []jobStatus, unknown []string, err error) {
	for range statusTries {
		limited, cancel := context.WithTimeout(ctx, statusPatience/statusTries)
		jobs, unknown, err = inspect(limited, store, names)
		cancel()
		if _, permanent := errors.AsType[*backends.PermanentError](err); err == nil || permanent || ctx.Err() != nil {
			break
		}
	}
	return jobs, unknown, err
}

func inspect(ctx context.Context, store all.Store, names []string) (jobs []jobStatus, unknown []string, err error) {
	if len(names) == 0 {
		if names, err = store.Jobs(ctx); err != nil {
			return nil, nil, err
		}
	}
	jobs = []jobStatus{}
	for _, name := range names {
		status, err := store.Inspect(ctx, name)
		if errors.Is(err, backends.ErrUnknownJob) {
			unknown = append(unknown, name)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		job := describe(name, status, store.Limits())
		job.Backend, job.Prefix = store.Redacted(), store.Prefix()
		jobs = append(jobs, job)
	}
	return jobs, unknown, nil
}

// describe derives what is shown from what the store keeps.
func describe(name string, s backends.Status, limits backends.Limits) jobStatus {
	r := s.Record
	j := jobStatus{
		Job: name, State: stateFree, Token: r.Token, TTL: r.TTL, Notes: s.Notes,
		TakeOver:   limits.TakeOver(time.Duration(r.TTL) * time.Millisecond).Milliseconds(),
		BreakAsked: r.Break != nil,
	}
	if j.Notes == nil {
		j.Notes = []string{}
	}
	switch {
	case s.Lease != nil:
		j.State, j.Token = stateRunning, s.Lease.Token
		j.ExpiresIn = new(max(s.Lease.Left, 0).Milliseconds())
		j.Holder = new(s.Lease.Holder)
	case s.Wait > 0 && r.Free():
		j.State = stateQuarantined
	case s.Wait > 0:
		j.State = stateVanished
		j.Holder = new(r.Holder.ID)
	}
	if s.Lease == nil && s.Wait > 0 {
		j.FreeIn = new(s.Wait.Milliseconds())
	}
	if j.Holder != nil && *j.Holder == r.Holder.ID {
		j.Host, j.PID, j.User = new(r.Holder.Host), new(r.Holder.PID), new(r.Holder.User)
		j.Since, j.sinceMillis = new(clock(r.Granted)), r.Granted
	}
	if r.Tick.Tick != 0 {
		state := r.Tick.State
		// Whoever claims next will write it down; nobody has to wait for that to know.
		if state == backends.Claimed && (s.Lease == nil || s.Lease.Holder != r.Tick.Claimant.ID) {
			state = backends.Lost
		}
		j.Tick, j.TickState = new(tickText(r.Tick.Tick)), new(string(state))
	}
	for _, run := range r.Runs {
		if run.Ended != 0 {
			j.LastState, j.LastExit, j.LastEnded = new(string(run.State)), new(run.Exit), new(clock(run.Ended))
			break
		}
	}
	return j
}

// clock shows milliseconds since 1970.
func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func writeJSON(w io.Writer, jobs []jobStatus) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(jobs)
}

func writeTable(w io.Writer, jobs []jobStatus, now time.Time) error {
	const gap = 2
	t := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	fmt.Fprintln(t, "JOB\tSTATE\tHOLDER\tSINCE\tLEFT\tTOKEN\tTICK\tLAST RUN\tTAKE-OVER")
	for _, j := range jobs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			oneLine(j.Job), j.State, j.holderText(), j.sinceText(now), j.leftText(), j.Token, j.tickText(), j.lastText(),
			millis(j.TakeOver))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nbackend %s", jobs[0].Backend)
	if jobs[0].Prefix != "" {
		fmt.Fprintf(w, ", prefix %s", jobs[0].Prefix)
	}
	fmt.Fprintln(w)
	told := map[string]bool{}
	for _, j := range jobs {
		for _, note := range j.Notes {
			if !told[note] {
				told[note] = true
				fmt.Fprintf(w, "note: %s\n", oneLine(note))
			}
		}
	}
	return err
}

func (j jobStatus) holderText() string {
	switch {
	case j.Host != nil:
		return oneLine(fmt.Sprintf("%s:%d (%s)", *j.Host, *j.PID, *j.User))
	case j.Holder != nil:
		return oneLine(*j.Holder)
	}
	return "-"
}

func (j jobStatus) sinceText(now time.Time) string {
	if j.Since == nil {
		return "-"
	}
	at := time.UnixMilli(j.sinceMillis)
	return fmt.Sprintf("%s (%v)", at.UTC().Format("2006-01-02 15:04:05Z"), max(now.Sub(at), 0).Round(time.Second))
}

func (j jobStatus) leftText() string {
	switch {
	case j.ExpiresIn != nil:
		return millis(*j.ExpiresIn)
	case j.FreeIn != nil:
		return "free in " + millis(*j.FreeIn)
	}
	return "-"
}

func (j jobStatus) tickText() string {
	if j.Tick == nil {
		return "-"
	}
	return *j.Tick + " " + *j.TickState
}

func (j jobStatus) lastText() string {
	if j.LastState == nil {
		return "-"
	}
	if *j.LastExit != 0 {
		return fmt.Sprintf("%s (%d)", *j.LastState, *j.LastExit)
	}
	return *j.LastState
}

func millis(ms int64) string {
	const tenth = 100 * time.Millisecond
	return (time.Duration(ms) * time.Millisecond).Round(tenth).String()
}
