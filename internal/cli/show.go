package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lint"
)

// OnStore calls f with the backend that the options name. A signal ends the context.
func (c *Call) OnStore(f func(ctx context.Context, store backends.Backend) error) (ExitStatus, error) {
	if err := c.Settings.Err; err != nil {
		return ExitStatus{}, err
	}
	store, err := c.OpenStore()
	if err != nil {
		return ExitStatus{}, err
	}
	defer store.Close()
	ctx, cancel := c.SignalContext()
	defer cancel()
	return ExitStatus{}, f(ctx, store)
}

// Show prints what a command has found: as JSON, or as text.
func Show[T any](c *Call, asJSON bool, found []T, text func(found []T) string) error {
	if asJSON {
		return c.Print(Objects(found))
	}
	return c.Print(text(found))
}

// Objects are values as one array of JSON.
func Objects[T any](values []T) string {
	if values == nil {
		values = []T{}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(values) // which takes all that is shown
	return string(VisibleJSON(text.Bytes()))
}

// WriteColumns sets rows of cells one below the other.
func WriteColumns(w io.Writer, rows ...[]string) {
	const gap = 2
	t := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	_ = t.Flush() // what is written to takes everything
}

// WriteHint writes a remedy, if there is one.
func WriteHint(w io.Writer, remedy string) {
	if remedy != "" {
		fmt.Fprintf(w, "hint: %s\n", OneLine(remedy))
	}
}

// Millis is a number of milliseconds as people read it, to a tenth of a second.
func Millis(ms int64) string {
	const tenth = 100 * time.Millisecond
	return (time.Duration(ms) * time.Millisecond).Round(tenth).String()
}

// HolderText is who runs or ran a job.
func HolderText(host *string, pid *int, user, id *string) string {
	switch {
	case host != nil && pid != nil && user != nil:
		return OneLine(fmt.Sprintf("%s:%d (%s)", *host, *pid, *user))
	case id != nil:
		return OneLine(*id)
	}
	return "-"
}

// FindingText is the line about a finding of lint.
func FindingText(f lint.Finding) string {
	place := f.Path
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	if f.Job != "" {
		place += ": " + OneLine(f.Job)
	}
	return fmt.Sprintf("%s: %s: %s", place, f.Rule, OneLine(f.Why))
}
