package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/fence/redisfence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
	"github.com/leaderrun/leaderrun/internal/cli"
)

// Hazard: the run is stopped by a signal to its whole group. The producer dies, stdin ends, and half an output is taken for all
// before the signal is seen.
func TestASignalThatComesWithTheEndOfStdin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{10 * time.Millisecond, context.Canceled}, {time.Second, nil}} {
		synctest.Test(t, func(t *testing.T) {
			in, producer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			signals := make(chan syscall.Signal, 1)
			call := &cli.Call{Stdin: in, Signals: signals}
			ctx, cancel := call.SignalContext()
			defer cancel()
			_, _ = io.WriteString(producer, "half")
			_ = producer.Close()
			go func() {
				time.Sleep(c.after)
				signals <- syscall.SIGTERM
			}()
			var out bytes.Buffer
			if err := (&content{call: call}).writeTo(ctx, &out); !errors.Is(err, c.want) || out.String() != "half" {
				t.Errorf("a signal %v after the end: %v, %q", c.after, err, &out)
			}
			time.Sleep(2 * time.Second) // until it has come
		})
	}
}

// Hazard: what was written stays, or may, and nobody hears of it because a signal came.
func TestWhatASignalDoesNotUndoIsTold(t *testing.T) {
	t.Parallel()
	unsynced := fmt.Errorf("%w: %w", filefence.ErrUnsynced, syscall.EIO)
	for _, c := range []struct {
		written string
		err     error
		want    string
	}{
		{"list was replaced", nil, "leaderrun: list was replaced before the signal\n"},
		{"", fenceFailed("list", unsynced), "leaderrun: list: it was replaced, but may be the old one again after a power cut: input/output error\n"},
		{"", fenceFailed("s", fmt.Errorf("%w: %w", s3fence.ErrUnclear, context.Canceled)), "leaderrun: s: it is not known whether it was written: context canceled\n"},
		{"", fenceFailed("r", fmt.Errorf("%w: %w", context.Canceled, redisfence.ErrUnclear)), "leaderrun: r: context canceled: it is not known whether it was done\n"},
		{"", nil, ""},
		{"", context.Canceled, ""},
		{"", fenceFailed("list", context.Canceled), ""},
		{"", &fence.StaleError{Resource: "list", Token: 1, Highest: 2}, ""},
		{"", &cli.Fault{Code: cli.CodeUnavailable, Why: "cannot be reached"}, ""},
	} {
		var said bytes.Buffer
		log := &cli.Console{Out: &said, Level: slog.LevelError}
		ended := &cli.Call{Console: log, Written: c.written}
		ended.Interrupt(syscall.SIGTERM)
		ended.Interrupt(syscall.SIGHUP) // the first one counts
		if end := ended.Finish(cli.ExitStatus{}, c.err); end != cli.BySignal(syscall.SIGTERM) {
			t.Errorf("%v: the program ends with %+v", c.err, end)
		}
		log.Close()
		if said.String() != c.want {
			t.Errorf("%q, %v: it says %q, want %q", c.written, c.err, &said, c.want)
		}
		if c.written == "" {
			continue
		}
		said.Reset()
		if end := (&cli.Call{Console: log, Written: c.written}).Finish(cli.ExitStatus{}, nil); end != (cli.ExitStatus{}) || said.Len() > 0 {
			t.Errorf("without a signal: %+v, %q", end, &said)
		}
	}
}
