package crontab

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The limits of cron of Debian.
const (
	MaxCommand = 998    // bytes of a command, behind the user of a system crontab
	MaxLines   = 10_000 // of a file
	maxSetting = 998    // bytes of a variable's line that are read
)

// Entry is a job as cron of Debian has read it.
type Entry struct {
	Line          int
	Fields        string // or @daily and the like; as it is written
	User, Command string // User: of a system crontab; Command: not yet taken apart at %
}

// LoadError says why cron of Debian ignores a whole crontab.
type LoadError struct {
	Line int // 0: the whole file
	Why  string
}

func (e *LoadError) Error() string {
	if e.Line == 0 {
		return e.Why
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Why)
}

// Dialect is the cron whose rules count.
type Dialect int

// The dialects.
const (
	Debian Dialect = iota // 3.0pl1
	Cronie                // the same, with what only that of cronie reads: - before a line, a~b, NAME= without a value, longer commands
)

// Load reads a crontab byte by byte as that program does, without this package's Parse. Every name counts as a user of the host. The
// error is a *LoadError.
func Load(text []byte, f Format, d Dialect) ([]Entry, error) {
	if before, _, found := bytes.Cut(text, []byte{0}); found { // what that does depends on where it is
		return nil, &LoadError{1 + bytes.Count(before, []byte("\n")), "there is a zero byte in it"}
	}
	l := loader{system: f == System, dialect: d}
	if lines := bytes.Count(text, []byte("\n")); lines > MaxLines {
		return nil, &LoadError{Why: fmt.Sprintf("it has more than %d lines", MaxLines)}
	}
	for line := range strings.Lines(string(text)) {
		l.line++
		if err := l.read(line); err != nil {
			return nil, err
		}
	}
	return l.entries, nil
}

// Refused says why neither cron would load a crontab, in the words of Debian's; nil: one of them would, or it is none of theirs.
func Refused(text []byte, f Format) *LoadError {
	if f == Supercronic {
		return nil
	}
	_, err := Load(text, f, Debian)
	wrong, refused := errors.AsType[*LoadError](err)
	if !refused {
		return nil
	}
	if _, err := Load(text, f, Cronie); err == nil {
		return nil
	}
	return wrong
}

type loader struct {
	system  bool
	dialect Dialect
	line    int
	entries []Entry
}

func (l *loader) read(line string) error {
	body := strings.TrimLeft(line, blanks)
	if body == "" || body[0] == '\n' || body[0] == '#' {
		return nil
	}
	text, ended := strings.CutSuffix(body, "\n")
	if !ended {
		return &LoadError{l.line, "the last line has no newline at its end"}
	}
	if m := setting().FindStringSubmatch(text[:min(len(text), maxSetting)]); len(m) > 1 && (m[1] != "" || l.dialect == Cronie) {
		return nil
	}
	e, why := l.entry(body)
	if why != "" {
		return &LoadError{l.line, why}
	}
	l.entries = append(l.entries, e)
	return nil
}

// setting is what load_env of cron takes: a name, in quotes or without blanks, and behind = a value, which quotes hold as a whole.
var setting = pattern(`(?s)^(?:"[^"=]*"|'[^'=]*'|[^"'= \t\v\f\r][^= \t\v\f\r]*|)[ \t\v\f\r]*=[ \t\v\f\r]*((?:"[^"]*"|'[^']*')[ \t\v\f\r]*$|[^"' \t\v\f\r]|$)`)

// nicknames and times are read only.
var nicknames = strings.Fields("reboot yearly annually monthly weekly daily midnight hourly")

var times = []field{
	{"bad minute", 0, 59, nil},
	{"bad hour", 0, 23, nil},
	{"bad day-of-month", 1, 31, nil},
	{"bad month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{"bad day-of-week", 0, 7, strings.Fields("sun mon tue wed thu fri sat sun")},
}

type field struct {
	why       string // what cron says of a wrong one
	low, high int
	names     []string
}

// entry is load_entry of cron, for a line with its end. why is what that says of one that is wrong.
func (l *loader) entry(line string) (e Entry, why string) {
	if l.dialect == Cronie {
		line = strings.TrimPrefix(line, "-")
	}
	rest := line
	if line[0] == '@' {
		end := strings.IndexAny(line, " \t\n")
		if !slices.Contains(nicknames, line[1:end]) {
			return e, "bad time specifier"
		}
		rest = strings.TrimLeft(line[end:], blanks)
	} else {
		for i := range times {
			var ok bool
			if rest, ok = l.list(rest, &times[i]); !ok {
				return e, times[i].why
			}
		}
	}
	e = Entry{Line: l.line, Fields: strings.TrimRight(line[:len(line)-len(rest)], blanks)}
	if !l.system && rest[0] == '*' {
		return e, "bad command"
	}
	if l.system {
		at := strings.IndexAny(rest, blanks)
		if at < 0 {
			return e, "bad command"
		}
		if e.User, rest = rest[:at], rest[at+1:]; e.User == "" {
			return e, "bad username"
		}
	}
	e.Command = strings.TrimSuffix(rest, "\n")
	if len(e.Command) > MaxCommand && l.dialect == Debian {
		return e, "command too long"
	}
	return e, ""
}

// isEnd says whether a text begins with what the functions of cron, which hand on a character in a char, take for the end of the file.
func isEnd(text string) bool { return text == "" || text[0] == 0xff }

// list is get_list of cron. What follows an element up to a blank is passed over: 5x is no number, 5?x is 5.
func (l *loader) list(text string, f *field) (rest string, ok bool) {
	for more := true; more; text, more = strings.CutPrefix(text, ",") {
		if text, ok = l.span(text, f); !ok || isEnd(text) {
			return "", false
		}
	}
	text = strings.TrimLeft(text[max(strings.IndexAny(text, " \t\n"), 0):], blanks)
	return text, !isEnd(text)
}

// span is get_range of cron.
func (l *loader) span(text string, f *field) (rest string, ok bool) {
	isIn := func(n int) bool { return n >= f.low && n <= f.high }
	from, to := f.low, f.high
	text, isAll := strings.CutPrefix(text, "*")
	if !isAll {
		if from, text, ok = number(text, f); !ok {
			return "", false
		}
		switch {
		case text[0] == '~' && l.dialect == Cronie:
			to, text, ok = number(text[1:], f)
			return text, ok && isIn(from) && isIn(to) && from <= to
		case text[0] != '-':
			return text, isIn(from) && text[0] != '/'
		}
		if to, text, ok = number(text[1:], f); !ok {
			return "", false
		}
	}
	if step, stepped := strings.CutPrefix(text, "/"); stepped {
		var n int
		if n, text, ok = number(step, &field{}); !ok || n <= 0 {
			return "", false
		}
	}
	return text, isIn(from) && isIn(to)
}

// number is get_number of cron, with atoi of libc, which wraps.
func number(text string, f *field) (n int, rest string, ok bool) {
	const digits, longest = "0123456789", 1000
	rest = strings.TrimLeft(text, digits+"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
	word := text[:len(text)-len(rest)]
	if word == "" || len(word) >= longest || isEnd(rest) {
		return 0, "", false
	}
	for i, name := range f.names {
		if strings.EqualFold(name, word) {
			return i + f.low, rest, true
		}
	}
	return atoi(word), rest, strings.Trim(word, digits) == ""
}

// atoi is that of glibc: strtol, which stops at the largest long, of which an int is the low half.
func atoi(digits string) int {
	n := uint64(0)
	for _, d := range digits {
		if n > (1<<63-1-uint64(d-'0'))/10 {
			return -1 // the low half of the largest long
		}
		n = n*10 + uint64(d-'0')
	}
	return int(int32(uint32(n))) //nolint:gosec // as C does it
}
