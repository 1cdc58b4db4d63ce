package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/leaderrun/leaderrun/backends"
)

// onStore calls f with the backend that the options name. A signal ends the context.
func (c *call) onStore(f func(ctx context.Context, store backends.Backend) error) (ExitStatus, error) {
	if err := c.settings.err; err != nil {
		return ExitStatus{}, err
	}
	store, err := c.openStore()
	if err != nil {
		return ExitStatus{}, err
	}
	defer store.Close()
	ctx, cancel := c.context()
	defer cancel()
	return ExitStatus{}, f(ctx, store)
}

// show prints what a command has found: as JSON, or as text.
func show[T any](c *call, asJSON bool, found []T, text func(found []T) string) error {
	if asJSON {
		return c.print(objects(found))
	}
	return c.print(text(found))
}

// objects are values as one array of JSON.
func objects[T any](values []T) string {
	if values == nil {
		values = []T{}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(values) // which takes all that is shown
	return string(visibleJSON(text.Bytes()))
}

// writeColumns sets rows of cells one below the other.
func writeColumns(w io.Writer, rows ...[]string) {
	const gap = 2
	t := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	_ = t.Flush() // what is written to takes everything
}

// writeHint writes a remedy, if there is one.
func writeHint(w io.Writer, remedy string) {
	if remedy != "" {
		fmt.Fprintf(w, "hint: %s\n", oneLine(remedy))
	}
}
