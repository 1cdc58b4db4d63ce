package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/internal/httplimit"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	consoleBuffer = 256             // lines that may wait for a slow reader; more are dropped
	lastWords     = 2 * time.Second // how long the end of the program waits for one
)

// Console is what people and machines are told on stderr. It never blocks its callers: stderr may be a pipe
// that nobody reads, and a renewal must not wait for it.
type Console struct {
	Out      io.Writer
	Level    slog.Level
	JSON     bool
	Terminal bool // stderr is one: somebody is looking
	secrets  []string

	mu      sync.Mutex
	lines   chan []byte
	written chan struct{} // closed when all lines are
	closed  bool          // the program ends: nothing more is said
	dropped int
}

func newConsole(stderr *os.File) *Console {
	return &Console{Out: stderr, Level: slog.LevelWarn, Terminal: isTerminal(stderr)}
}

// isTerminal also takes /dev/null for one, where one line more does no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// configure takes the options that say what is told and how.
func (v *Console) configure(s *Settings) {
	v.JSON = Read(s, "log-format", value.OneOf(Formats...), "text") == "json"
	_ = v.Level.UnmarshalText([]byte(Read(s, "log-level", value.OneOf(levels...), "warn"))) // package slog has the same words
	if s.On("quiet") {
		v.Level = slog.LevelError
		v.Terminal = false
	}
}

// Event tells what happened to a run.
func (v *Console) Event(e runner.Event) {
	// On a terminal somebody wonders why nothing happened.
	why := e.Name == runner.EventSkipped || e.Name == runner.EventStandby
	shown := e.Level >= v.Level || (v.Terminal && !v.JSON && why)
	if !shown {
		return
	}
	if v.JSON {
		v.Write(v.object(e))
		return
	}
	v.Write(v.text(e.Text, e.Hint))
}

// Warn tells one line, and the remedy.
func (v *Console) Warn(text, hint string) {
	v.Event(runner.Event{Name: "warning", Level: slog.LevelWarn, Text: text, Hint: hint})
}

// Fault tells why the program ends.
func (v *Console) Fault(err error) {
	e := runner.Event{Name: "error", Level: slog.LevelError, Text: err.Error()}
	e.Hint = HintOf(err)
	e.Fields = []slog.Attr{slog.Int("code", ErrorCode(err))}
	v.Event(e)
}

func (v *Console) text(what, hint string) []byte {
	line := "leaderrun: " + OneLine(withoutPasswords(v.Redact(what))) + "\n"
	if hint != "" {
		line += "hint: " + OneLine(v.Redact(hint)) + "\n"
	}
	return []byte(line)
}

func (v *Console) object(e runner.Event) []byte {
	attrs := []slog.Attr{slog.String("event", e.Name)}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, v.Redact(value)))
		}
	}
	add("job", e.Job)
	add("holder", e.Holder)
	if e.Token != 0 {
		attrs = append(attrs, slog.Int64("token", e.Token))
	}
	if e.Tick != 0 {
		attrs = append(attrs, slog.String("tick", TickText(e.Tick)))
	}
	add("reason", withoutPasswords(e.Reason))
	add("hint", e.Hint)
	attrs = append(attrs, e.Fields...)
	var buffer bytes.Buffer
	handler := slog.NewJSONHandler(&buffer, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: lowerLevel})
	record := slog.NewRecord(time.Now(), e.Level, withoutPasswords(v.Redact(e.Text)), 0)
	record.AddAttrs(attrs...)
	if err := handler.Handle(context.Background(), record); err != nil {
		return v.text(e.Text, e.Hint)
	}
	return VisibleJSON(buffer.Bytes())
}

func lowerLevel(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.LevelKey {
		return slog.String(slog.LevelKey, strings.ToLower(a.Value.String()))
	}
	return a
}

// TickText is a scheduled instant as people and the child's environment see it.
func TickText(tick int64) string { return time.Unix(tick, 0).UTC().Format(time.RFC3339) }

// OneLine keeps a text from looking like several lines or from moving a terminal's cursor.
func OneLine(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		one := text[:size]
		if !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 { // a byte that is no UTF-8 may still move a cursor
			q := strconv.Quote(one)
			one = q[1 : len(q)-1]
		}
		b.WriteString(one)
		text = text[size:]
	}
	return b.String()
}

// KeepSecret hides a text in all that is said from now on.
func (v *Console) KeepSecret(secrets ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range secrets {
		if s != "" && !slices.Contains(v.secrets, s) {
			v.secrets = append(v.secrets, s)
		}
	}
}

// Redact hides the secrets that were kept, and passwords in URLs.
func (v *Console) Redact(text string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.secrets {
		text = hide(text, s)
	}
	return text
}

// Write hands a line to the goroutine that may wait for the reader.
func (v *Console) Write(line []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	if v.lines == nil {
		v.lines, v.written = make(chan []byte, consoleBuffer), make(chan struct{})
		lines, written := v.lines, v.written
		panics.Go(func() { v.speak(lines, written) })
	}
	if v.dropped > 0 && len(v.lines) < consoleBuffer/2 {
		v.lines <- v.lost()
	}
	select {
	case v.lines <- line:
	default:
		v.dropped++
	}
}

// lost says how much was not said. It needs v.mu.
func (v *Console) lost() []byte {
	n := v.dropped
	v.dropped = 0
	if v.JSON {
		return fmt.Appendf(nil, "{\"level\":\"warn\",\"event\":\"dropped\",\"msg\":\"stderr is slow\",\"count\":%d}\n", n)
	}
	return fmt.Appendf(nil, "leaderrun: stderr is slow: %d lines were dropped\n", n)
}

func (v *Console) speak(lines <-chan []byte, written chan<- struct{}) {
	defer close(written)
	for line := range lines {
		_, _ = v.Out.Write(line) // there is nobody to tell
	}
}

// Close waits for what was said to be written, but not for a reader that never comes. What others say from now on is dropped: the
// program ends, and some of its goroutines live on until it has.
func (v *Console) Close() {
	v.mu.Lock()
	again := v.closed
	v.closed = true
	lines, written := v.lines, v.written
	v.mu.Unlock()
	if lines == nil || again {
		return
	}
	close(lines)
	select {
	case <-written:
	case <-time.After(lastWords):
	}
}

// SpokenLog takes what package net/http has to say, and other libraries. It says nothing of importance that is not told by the requests themselves.
type SpokenLog struct{ Console *Console }

// Handle implements slog.Handler.
func (l *SpokenLog) Handle(_ context.Context, r slog.Record) error {
	l.Console.Event(runner.Event{Name: "http", Level: r.Level, Text: httplimit.Brief(strings.TrimSpace(r.Message))})
	return nil
}

// Enabled implements slog.Handler.
func (*SpokenLog) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (l *SpokenLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *SpokenLog) WithGroup(string) slog.Handler { return l }
