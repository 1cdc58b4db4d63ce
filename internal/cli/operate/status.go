package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
)

const (
	watchEvery  = time.Second
	clearScreen = "\x1b[H\x1b[2J"
	tableTime   = "2006-01-02 15:04:05Z"
)

// Status is `leaderrun status`.
func Status() *cli.Command {
	return &cli.Command{
		Name: "status", Args: "[JOB…]", Brief: "show who runs what",
		About: `Shows for each job whether it runs, where, since when, with which token, how its last run or tick
ended, and within how long a standby takes over from a host that crashed; a newcomer may wait longer.
A job with slots has a line for each slot that was ever taken, which JOB#3 shows alone. Of a tick or key that is
divided into shards it first says how far the whole is, and of workers that are divided among hosts who they
are (--json: "members", each with its shards). Without JOB it shows every job that the backend has a
record of, and of a divided one only the whole; one that was forgotten stays listed with its token. The exit
code is 1 for an unknown job. A record that cannot be read does not hide the others: they are shown, and the
exit code is that of the error (--json: "state": "unreadable").`,
		Examples: []cli.ExampleLine{
			{Does: "all jobs", Line: "leaderrun status"},
			{Does: "one job, for a program", Line: "leaderrun status --json nightly-report"},
		},
		Options: append([]cli.Option{
			{Name: "json", Help: "one array of objects"},
			{Name: "watch", Help: "show it again every second, also when the backend was away for a while"},
		}, cli.CommonOptions()...),
		Run: runStatus,
	}
}

// jobStatus is what status shows of one job. The names are a contract.
type jobStatus struct {
	Job         string   `json:"job"`
	Slot        *int     `json:"slot"`
	Shard       *int     `json:"shard"`
	State       string   `json:"state"`
	Holder      *string  `json:"holder"`
	Host        *string  `json:"host"`
	PID         *int     `json:"pid"`
	User        *string  `json:"user"`
	Token       int64    `json:"token"`
	Since       *string  `json:"since"`         // the start of the run
	ExpiresIn   *int64   `json:"expires_in_ms"` // running: left of the lease
	FreeIn      *int64   `json:"free_in_ms"`    // vanished, quarantined, reserved: until somebody may run it
	Tick        *string  `json:"tick"`
	TickState   *string  `json:"tick_state"`
	Attempt     *int     `json:"tick_attempt"`
	MaxAttempts *int     `json:"tick_max_attempts"`
	Policy      *string  `json:"tick_policy"` // what becomes of the tick when its holder vanishes
	LastState   *string  `json:"last_state"`  // of the last run that is over
	LastExit    *int     `json:"last_exit"`
	LastEnded   *string  `json:"last_ended"`
	TTL         int64    `json:"ttl_ms"`
	TakeOver    int64    `json:"takeover_ms"` // a standby, after a crash
	Backend     string   `json:"backend"`
	Prefix      string   `json:"prefix"`
	Notes       []string `json:"notes"`
	BreakAsked  bool     `json:"break_requested"` // of the run that goes on now
	BreakBy     *string  `json:"break_by"`
	BreakReason *string  `json:"break_reason"`
	BreakAt     *string  `json:"break_at"`
	Shards      *whole   `json:"shards"`  // of a divided job, as a whole
	Members     []member `json:"members"` // of a job whose workers are divided among hosts, as a whole: those hosts, by place
	sinceMillis int64
	breakText   string
}

// The states of a job.
const (
	stateRunning     = "running"
	stateFree        = "free"
	stateVanished    = "vanished"    // a lease is gone that was not released: its holder may still live
	stateReserved    = "reserved"    // nobody runs it, and it is kept for the host that had it last
	stateQuarantined = "quarantined" // the store may have forgotten a lease
	stateUnreadable  = "unreadable"  // its record cannot be read
)

func runStatus(c *cli.Call) (cli.ExitStatus, error) {
	asJSON, watch := c.Settings.On("json"), c.Settings.On("watch")
	return c.OnStore(func(ctx context.Context, store backends.Backend) error {
		return followStatus(ctx, c, store, asJSON, watch)
	})
}

// followStatus shows the status once, or again and again: then also after the backend was away, until the context ends or an error
// comes that no waiting mends.
func followStatus(ctx context.Context, c *cli.Call, store backends.Backend, asJSON, watch bool) error {
	away := false
	for {
		err := showStatus(ctx, c, store, asJSON, watch)
		switch {
		case !watch:
			return err
		case ctx.Err() != nil:
			return nil //nolint:nilerr // an interrupt ends it, whatever it was about to say
		case err != nil && cli.ErrorCode(err) != cli.CodeUnavailable:
			return err
		}
		if err != nil && !away {
			c.Console.Warn(err.Error(), "it is asked again and again: an interrupt ends that")
		}
		if err == nil && away {
			c.Console.Warn("the backend answers again", "")
		}
		away = err != nil
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

func showStatus(ctx context.Context, c *cli.Call, store backends.Backend, asJSON, watch bool) error {
	jobs, unknown, unread := inspect(ctx, store, c.Args)
	if unread != nil && len(jobs) == 0 {
		return cli.Asked(unread)
	}
	text := ""
	switch {
	case asJSON:
		text = cli.Objects(jobs)
	case len(jobs) > 0:
		text = statusText(jobs, backendLine(c, store), time.Now())
	case len(unknown) == 0:
		text = "no jobs yet\n\n" + backendLine(c, store)
	}
	if watch && c.Terminal {
		text = clearScreen + text
	}
	switch err := c.Print(text); {
	case err != nil:
		return err
	case unread != nil:
		return cli.Asked(unread)
	case len(unknown) > 0:
		return cli.UnknownJob(store, unknown...)
	}
	return nil
}

// inspect returns what can be read, also beside an error of the backend about one of the jobs, which must not hide the
// others. A job stands for its slots, too. Each request has its own time: there may be thousands.
func inspect(ctx context.Context, store backends.Backend, args []string) (jobs []jobStatus, unknown []string, err error) {
	var names []string
	shared := map[string]bool{} // the jobs that have members, or had some
	if len(args) == 0 {
		if names, err = jobsOf(ctx, store); err != nil && !backends.IsAnswer(err) {
			return nil, nil, err
		}
		for _, name := range names {
			if job, is := shards.IsMembers(name); is {
				shared[job] = true
			}
		}
		names = slices.DeleteFunc(names, cli.IsInternal)
		inSlotOrder(names)
	}
	for _, job := range args {
		more, places, failed := namesOf(ctx, store, job)
		if failed != nil {
			return nil, nil, failed
		}
		names = append(names, more...)
		if len(places) > 0 {
			shared[job] = true
		}
	}
	jobs = []jobStatus{}
	parts := divided{}
	for job := range shared {
		failed := ofRecord(ctx, store, shards.Members(job), cli.Patiently(ctx, func(ctx context.Context) (err error) {
			parts.of(job).roll, err = shards.Roll(ctx, store, job)
			return err
		}))
		err = cmp.Or(err, failed) // if the store does not answer, the jobs say so
	}
	statuses, failures := make([]backends.Status, len(names)), make([]error, len(names))
	silent := shards.Together(len(names), func(i int) error {
		failures[i] = ofRecord(ctx, store, names[i], cli.Patiently(ctx, func(ctx context.Context) (err error) {
			statuses[i], err = store.Inspect(ctx, names[i])
			return err
		}))
		if backends.IsAnswer(failures[i]) {
			return nil
		}
		return failures[i]
	})
	if silent != nil {
		return nil, nil, silent
	}
	for i, name := range names {
		status, failed := statuses[i], failures[i]
		switch {
		case errors.Is(failed, backends.ErrUnknownJob) && parts[name] != nil && len(parts[name].roll) > 0: // no shard was begun yet
			job, _ := parts[name].status(name, store)
			jobs = append(jobs, job)
			continue
		case errors.Is(failed, backends.ErrUnknownJob):
			unknown = append(unknown, name)
			continue
		case failed != nil:
			err = cmp.Or(err, failed)
			jobs = append(jobs, jobStatus{
				Job: name, State: stateUnreadable, Backend: store.Redacted(), Prefix: store.Prefix(), Notes: []string{name + ": " + failed.Error()},
			})
			continue
		}
		job := describe(name, status, store.Limits())
		job.Backend, job.Prefix = store.Redacted(), store.Prefix()
		jobs = append(jobs, job)
		if !slices.Contains(args, name) { // who asks for one shard does not ask for the whole
			parts.add(name, status)
		}
	}
	return parts.sumUp(jobs, store, len(args) == 0), unknown, err
}

// ofRecord tells a record that cannot be read from a store that does not answer: such a store says nothing about any job.
func ofRecord(ctx context.Context, store backends.Backend, job string, failed error) error {
	if failed == nil || backends.IsAnswer(failed) || errors.Is(failed, context.DeadlineExceeded) || ctx.Err() != nil {
		return failed
	}
	limited, cancel := context.WithTimeout(ctx, cli.StatusPatience/cli.StatusTries)
	defer cancel()
	if _, err := store.Look(limited, cli.ReadyProbe); err != nil && !errors.Is(err, backends.ErrUnknownJob) {
		return failed
	}
	return backends.Misconfigured("look at the record by the store's own tools; or delete it while no run of the job is on", "the record of %q cannot be read: %w", job, failed)
}

// describe derives what is shown from what the store keeps.
func describe(name string, s backends.Status, limits backends.Limits) jobStatus {
	r := s.Record
	reserved := r.ReservedFor(s.Now)
	j := jobStatus{
		Job: name, State: stateFree, Token: r.Token, TTL: r.TTL, Notes: s.Notes,
		TakeOver: limits.TakeOver(time.Duration(r.TTL) * time.Millisecond).Milliseconds(),
	}
	j.Slot, j.Shard = numbersOf(name, r)
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
	case reserved > 0:
		j.State = stateReserved
		j.Host, j.PID, j.User = new(r.Holder.Host), new(r.Holder.PID), new(r.Holder.User)
	}
	if wait := max(s.Wait, reserved); s.Lease == nil && wait > 0 {
		j.FreeIn = new(wait.Milliseconds())
	}
	if j.Holder != nil && *j.Holder == r.Holder.ID {
		j.Host, j.PID, j.User = new(r.Holder.Host), new(r.Holder.PID), new(r.Holder.User)
		j.Since, j.sinceMillis = new(clock(r.Granted)), r.Granted
	}
	if last := r.LastTick(); last.Tick != 0 {
		j.Tick, j.TickState = new(cli.TickText(last.Tick)), new(string(tickState(s, last)))
		j.Attempt, j.MaxAttempts = known(last.Attempt), known(last.MaxAttempts)
		j.Policy = known(string(last.Policy))
	}
	if last, ok := lastRun(s); ok {
		j.LastState, j.LastExit, j.LastEnded = new(last.State), last.Exit, last.Ended
	}
	if b := breakOf(s); b != nil {
		j.BreakAsked, j.BreakBy = true, new(b.By.User+" on "+b.By.Host)
		j.BreakReason, j.BreakAt = known(b.Reason), new(clock(b.At))
		j.breakText = byText(*b)
	}
	return j
}

// clock shows milliseconds since 1970.
func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// backendLine says where the jobs are kept: with another prefix, they would be others.
func backendLine(c *cli.Call, store backends.Backend) string {
	line := "backend " + store.Redacted()
	if p := store.Prefix(); p != "" {
		line += ", prefix " + p
	}
	if _, named, err := c.Backend(); err == nil && !named {
		line += ", because none is named" // the jobs of a crontab may be elsewhere, where a line of it says
	}
	return line + "\n"
}

func statusText(jobs []jobStatus, backend string, now time.Time) string {
	var b strings.Builder
	rows := [][]string{{"JOB", "STATE", "HOLDER", "SINCE", "LEFT", "TOKEN", "TICK", "LAST RUN", "TAKE-OVER"}}
	var notes []string
	for _, j := range jobs {
		above := j.Shards != nil && slices.ContainsFunc(jobs, func(x jobStatus) bool { return x.Shard != nil && slots.Whole(x.Job) == j.Job })
		if line := j.line(); above {
			if line != "" {
				fmt.Fprintln(&b, line)
			}
			continue
		}
		rows = append(rows, []string{
			cli.OneLine(j.Job), j.State, j.holderText(), j.sinceText(now), j.leftText(), fmt.Sprint(j.Token), j.tickText(), j.lastText(), cli.Millis(j.TakeOver),
		})
		if j.BreakAsked {
			notes = append(notes, fmt.Sprintf("note: %s was asked to stop%s\n", cli.OneLine(j.Job), cli.OneLine(j.breakText)))
		}
		for _, note := range j.Notes {
			if note = "note: " + cli.OneLine(note) + "\n"; !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	cli.WriteColumns(&b, rows...)
	return b.String() + "\n" + backend + strings.Join(notes, "")
}

func (j jobStatus) holderText() string {
	switch n := len(j.Members); n {
	case 0:
		return cli.HolderText(j.Host, j.PID, j.User, j.Holder)
	case 1:
		return "1 host"
	default:
		return fmt.Sprintf("%d hosts", n)
	}
}

func (j jobStatus) sinceText(now time.Time) string {
	if j.Since == nil {
		return "-"
	}
	at := time.UnixMilli(j.sinceMillis)
	return fmt.Sprintf("%s (%v)", at.UTC().Format(tableTime), max(now.Sub(at), 0).Round(time.Second))
}

func (j jobStatus) leftText() string {
	switch {
	case j.ExpiresIn != nil:
		return cli.Millis(*j.ExpiresIn)
	case j.FreeIn != nil:
		return "free in " + cli.Millis(*j.FreeIn)
	}
	return "-"
}

func (j jobStatus) tickText() string {
	if j.Shards != nil {
		return j.Shards.cell()
	}
	if j.Tick == nil {
		return "-"
	}
	text := *j.Tick + " " + *j.TickState
	if j.Attempt != nil && j.MaxAttempts != nil && *j.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d of %d)", *j.Attempt, *j.MaxAttempts)
	}
	return text
}

func (j jobStatus) lastText() string {
	if j.LastState == nil {
		return "-"
	}
	if j.LastExit != nil && *j.LastExit != 0 {
		return fmt.Sprintf("%s (%d)", *j.LastState, *j.LastExit)
	}
	return *j.LastState
}
