package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
)

// History is `leaderrun history`.
func History() *cli.Command {
	return &cli.Command{
		Name: "history", Args: "JOB", Brief: "show how the last runs of a job ended",
		About: `Shows the last 20 runs of a job, newest first, and the ticks that were lost or missed. Of a job with slots
or shards it shows those of each; JOB#3 is one of them. A run is lost when its holder vanished, or stopped it because
the lease could not be renewed: nobody knows how far it came. A tick is missed when its time passed while an
earlier run had the lease. The exit code is 1 for an unknown job.`,
		Examples: []cli.ExampleLine{
			{Does: "the last runs", Line: "leaderrun history nightly-report"},
			{Does: "for a program", Line: "leaderrun history --json nightly-report"},
		},
		Options: append([]cli.Option{{Name: "json", Help: "one array of objects"}}, cli.CommonOptions()...),
		Run:     runHistory,
	}
}

func runHistory(c *cli.Call) (cli.ExitStatus, error) {
	job, err := oneJob(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	asJSON := c.Settings.On("json")
	return c.OnStore(func(ctx context.Context, store backends.Backend) error {
		entries, err := historyIn(ctx, store, job)
		if err != nil {
			return err
		}
		return cli.Show(c, asJSON, entries, historyText)
	})
}

// historyIn returns the history of a job. That of one with slots has the last runs of each slot.
func historyIn(ctx context.Context, store backends.Backend, job string) (entries []entry, err error) {
	names, err := expand(ctx, store, job)
	if err != nil {
		return nil, err
	}
	statuses, err := inspectJobs(ctx, store, names)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		more := historyOf(statuses[i])
		slot, shard := numbersOf(name, statuses[i].Record)
		for i := range more {
			more[i].Slot, more[i].Shard = slot, shard
		}
		entries = append(entries, more...)
	}
	if len(names) > 1 {
		slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.startedAt, a.startedAt) })
	}
	return entries, nil
}

// entry is one line of a history: a run, or a tick that was never started. What is not known is null. The names
// are a contract.
type entry struct {
	Slot    *int    `json:"slot"`
	Shard   *int    `json:"shard"`
	Tick    *string `json:"tick"`
	Once    *string `json:"once"`
	Token   *int64  `json:"token"`
	Attempt *int    `json:"attempt"`
	Host    *string `json:"host"`
	PID     *int    `json:"pid"`
	User    *string `json:"user"`
	Holder  *string `json:"holder"`
	Started *string `json:"started"`
	Ended   *string `json:"ended"`
	State   string  `json:"state"`
	Exit    *int    `json:"exit"`
	Note    *string `json:"note"`
	took    time.Duration

	startedAt int64 // ms
}

// historyOf derives what is shown of the last runs from what the store keeps, newest first.
func historyOf(s backends.Status) []entry {
	var entries []entry
	if missedOne(s) {
		entries = append(entries, entry{Tick: new(cli.TickText(s.Record.Passed)), State: string(backends.Missed)})
	}
	for _, run := range s.Record.Runs {
		entries = append(entries, entryOf(s, run))
	}
	return entries[:min(len(entries), backends.KeptRuns)]
}

func entryOf(s backends.Status, run backends.Run) entry {
	e := entry{
		Once: known(run.Key), Token: known(run.Token), Attempt: known(run.Attempt),
		Host: known(run.Holder.Host), PID: known(run.Holder.PID), User: known(run.Holder.User), Holder: known(run.Holder.ID),
		State: runState(s, run), Note: known(run.Note), startedAt: run.Started,
	}
	if run.Tick != 0 {
		e.Tick = new(cli.TickText(run.Tick))
	}
	if run.Started != 0 {
		e.Started = new(clock(run.Started))
	}
	end := run.Ended
	if end != 0 {
		e.Ended = new(clock(end))
	}
	if e.State == stateRunning {
		end = s.Now.UnixMilli()
	}
	if run.Started != 0 && end != 0 {
		e.took = time.Duration(max(end-run.Started, 0)) * time.Millisecond
	}
	e.Exit = exitOf(run)
	if e.Note == nil {
		e.Note = known(noteOn(s, run))
	}
	return e
}

// known is null for what was not recorded.
func known[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// runState is what became of a run. One that was granted and never reported its end runs as long as the lease is
// its own; without it, it is lost, whether or not anybody has written that down.
func runState(s backends.Status, run backends.Run) string {
	switch {
	case run.State != backends.Claimed:
		return string(run.State)
	case leads(s, run.Holder) && s.Lease.Token == run.Token:
		return stateRunning
	}
	return string(backends.Lost)
}

// tickState is what became of a tick or key, as runState sees it.
func tickState(s backends.Status, o backends.Occurrence) backends.State {
	if o.State == backends.Claimed && !leads(s, o.Claimant) {
		return backends.Lost
	}
	return o.State
}

func leads(s backends.Status, h backends.Holder) bool {
	return s.Lease != nil && s.Lease.Holder == h.ID
}

// exitOf is the code of a command that ended in peace. One that was stopped for want of a lease has none: 0 would
// look like success.
func exitOf(run backends.Run) *int {
	switch run.State {
	case backends.Done, backends.Failed, backends.Stopped:
		if run.Ended != 0 {
			return &run.Exit
		}
	}
	return nil
}

// noteOn says what there is to say of the last run besides its state.
func noteOn(s backends.Status, run backends.Run) string {
	r := &s.Record
	switch {
	case run.Token == 0 || run.Token != r.Token:
	case s.Lease == nil && s.Wait > 0 && !r.Free() && run.Ended == 0:
		return "its holder may still live for " + cli.Millis(s.Wait.Milliseconds())
	case breakOf(s) != nil:
		return "asked to stop" + byText(*r.Break)
	}
	return ""
}

// breakOf is the request to the run that goes on now to stop.
func breakOf(s backends.Status) *backends.BreakRequest {
	b := s.Record.Break
	if b == nil || s.Lease == nil || s.Lease.Token != b.Token {
		return nil
	}
	return b
}

// byText is who asked for a break, and why.
func byText(b backends.BreakRequest) string {
	text := ""
	if b.By.User != "" || b.By.Host != "" {
		text = fmt.Sprintf(" by %s on %s", b.By.User, b.By.Host)
	}
	if b.Reason != "" {
		text += ": " + b.Reason
	}
	return text
}

// missedOne says whether the tick that was passed over while an earlier run had the lease will not be run any more.
// Whoever stood by for it takes the lease as soon as that is free, and within another TTL although no news of it came.
func missedOne(s backends.Status) bool {
	r := &s.Record
	if r.Passed == 0 || r.Passed <= r.Tick.Tick || s.Lease != nil {
		return false
	}
	over := r.Ended + r.TTL
	if !r.Free() {
		over = r.Until + 2*r.TTL
	}
	return s.Now.UnixMilli() > over
}

// lastRun returns the last run that is over, as the history shows it.
func lastRun(s backends.Status) (entry, bool) {
	for _, run := range s.Record.Runs {
		if e := entryOf(s, run); run.Token != 0 && run.State != backends.Open && e.State != stateRunning {
			return e, true
		}
	}
	return entry{}, false
}

// historyColumns are those of the table. One that is not always there is left out where it says nothing.
func historyColumns() []historyColumn {
	return []historyColumn{
		{"SHARD", false, func(e entry) string { return shown(e.Shard) }},
		{"SLOT", false, func(e entry) string { return shown(e.Slot) }},
		{"TICK OR KEY", false, entry.trigger},
		{"TOKEN", true, func(e entry) string { return shown(e.Token) }},
		{"ATTEMPT", true, func(e entry) string { return shown(e.Attempt) }},
		{"HOLDER", true, func(e entry) string { return cli.HolderText(e.Host, e.PID, e.User, e.Holder) }},
		{"STARTED", true, startText},
		{"TOOK", true, tookText},
		{"STATE", true, func(e entry) string { return e.State }},
		{"EXIT", true, func(e entry) string { return shown(e.Exit) }},
		{"NOTE", true, noteText},
	}
}

type historyColumn struct {
	head   string
	always bool
	cell   func(entry) string
}

func historyText(entries []entry) string {
	if len(entries) == 0 {
		return "no runs yet\n"
	}
	rows := make([][]string, 1+len(entries))
	for _, c := range historyColumns() {
		if !c.always && !slices.ContainsFunc(entries, func(e entry) bool { return c.cell(e) != "-" }) {
			continue
		}
		rows[0] = append(rows[0], c.head)
		for i, e := range entries {
			rows[i+1] = append(rows[i+1], c.cell(e))
		}
	}
	var b strings.Builder
	cli.WriteColumns(&b, rows...)
	return b.String()
}

// shown is a value of a table's cell.
func shown[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return cli.OneLine(fmt.Sprint(*value))
}

func (e entry) trigger() string {
	if e.Tick != nil {
		return *e.Tick
	}
	if e.Once != nil {
		return strconv.Quote(*e.Once)
	}
	return "-"
}

// startText is an instant in a table, to the second.
func startText(e entry) string {
	if e.Started == nil {
		return "-"
	}
	return time.UnixMilli(e.startedAt).UTC().Format(tableTime)
}

func noteText(e entry) string {
	if e.Note == nil {
		return ""
	}
	return cli.OneLine(*e.Note)
}

func tookText(e entry) string {
	switch {
	case e.Started == nil || e.Ended == nil && e.State != stateRunning:
		return "-"
	case e.took < time.Minute:
		return cli.Millis(e.took.Milliseconds())
	}
	return e.took.Round(time.Second).String()
}
