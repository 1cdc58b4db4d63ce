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
	if _, other := Load(text, f, Cronie); err == nil || other == nil {
		return nil
	}
	wrong, _ := errors.AsType[*LoadError](err)
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
	if l.isSetting(text) {
		return nil
	}
	e := Entry{Line: l.line}
	if why := l.entry(&e, cursor{text: body}); why != "" {
		return &LoadError{l.line, why}
	}
	l.entries = append(l.entries, e)
	return nil
}

// isSetting is load_env of cron: a state for each part of NAME = value.
func (l *loader) isSetting(line string) bool {
	line = line[:min(len(line), maxSetting)]
	var rest string
	if q := line[:1]; q == `"` || q == "'" {
		name, after, closed := strings.Cut(line[1:], q)
		if !closed || strings.Contains(name, "=") {
			return false
		}
		rest = after
	} else {
		at := strings.IndexAny(line, "="+spaces)
		if at < 0 {
			return false
		}
		rest = line[at:]
	}
	value, ok := strings.CutPrefix(strings.TrimLeft(rest, spaces), "=")
	if !ok {
		return false
	}
	value = strings.TrimLeft(value, spaces)
	if value == "" {
		return l.dialect == Cronie
	}
	if q := value[:1]; q == `"` || q == "'" {
		_, after, closed := strings.Cut(value[1:], q)
		return closed && strings.Trim(after, spaces) == ""
	}
	return true
}

// cursor is a place in a line. The functions of cron that read it hand on the character that comes next in a char: \xff is an end of
// file to them.
type cursor struct {
	text string
	at   int
}

const end = -1

// next is get_char: 0 to 255.
func (c *cursor) now() int {
	if c.at >= len(c.text) {
		return end
	}
	return int(c.text[c.at])
}

// asChar is what becomes of a character that a function of cron returns.
func asChar(ch int) int {
	if ch == 0xff {
		return end
	}
	return ch
}

// nicknames and times are read only.
var nicknames = strings.Fields("reboot yearly annually monthly weekly daily midnight hourly")

var times = []struct {
	why       string // what cron says of a wrong one
	low, high int
	names     []string
}{
	{"bad minute", 0, 59, nil},
	{"bad hour", 0, 23, nil},
	{"bad day-of-month", 1, 31, nil},
	{"bad month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{"bad day-of-week", 0, 7, strings.Fields("sun mon tue wed thu fri sat sun")},
}

// entry is load_entry of cron. It returns what that says of a line that is wrong.
func (l *loader) entry(e *Entry, c cursor) (why string) {
	if l.dialect == Cronie && c.now() == '-' {
		c.at++
	}
	start := c.at
	if c.now() == '@' {
		c.at += strings.IndexAny(c.text[c.at:], " \t\n")
		if !slices.Contains(nicknames, c.text[start+1:c.at]) {
			return "bad time specifier"
		}
		c.skipBlanks()
	} else {
		for _, f := range times {
			if !l.list(&c, f.low, f.high, f.names) {
				return f.why
			}
		}
	}
	e.Fields = strings.TrimRight(c.text[start:c.at], blanks)
	if !l.system && c.now() == '*' {
		return "bad command"
	}
	if l.system {
		at := strings.IndexAny(c.text[c.at:], " \t")
		if at < 0 {
			return "bad command"
		}
		e.User = c.text[c.at : c.at+at]
		c.at += at + 1
		if e.User == "" || strings.Contains(e.User, "\n") {
			return "bad username"
		}
	}
	e.Command = strings.TrimSuffix(c.text[c.at:], "\n")
	if len(e.Command) > MaxCommand && l.dialect == Debian {
		return "command too long"
	}
	return ""
}

// list is get_list of cron. What follows an element up to a blank is passed over: 5x is no number, 5?x is 5.
func (l *loader) list(c *cursor, low, high int, names []string) bool {
	for {
		if !l.span(c, low, high, names) {
			return false
		}
		if c.now() != ',' {
			break
		}
		c.at++
	}
	if asChar(c.now()) == end {
		return false
	}
	for ch := c.now(); ch != ' ' && ch != '\t' && ch != '\n' && ch != end; ch = c.now() {
		c.at++
	}
	c.skipBlanks()
	return asChar(c.now()) != end
}

func (c *cursor) skipBlanks() {
	for c.now() == ' ' || c.now() == '\t' {
		c.at++
	}
}

// span is get_range of cron.
func (l *loader) span(c *cursor, low, high int, names []string) bool {
	from, to := low, high
	ranged := c.now() == '*'
	if ranged {
		c.at++
	} else {
		var ok bool
		if from, ok = c.number(low, names); !ok {
			return false
		}
		switch ch := c.now(); {
		case ch == '~' && l.dialect == Cronie:
			c.at++
			if to, ok = c.number(low, names); !ok {
				return false
			}
			return from >= low && from <= to && to <= high
		case ch == '/':
			return false
		case ch != '-':
			return from >= low && from <= high
		}
		c.at++
		if to, ok = c.number(low, names); !ok {
			return false
		}
	}
	if c.now() == '/' {
		c.at++
		if step, ok := c.number(0, nil); !ok || step <= 0 {
			return false
		}
	}
	return from >= low && from <= high && to >= low && to <= high
}

// number is get_number of cron, with atoi of libc, which wraps.
func (c *cursor) number(low int, names []string) (n int, ok bool) {
	start, digits := c.at, true
	for ch := c.now(); ch >= '0' && ch <= '9' || ch|0x20 >= 'a' && ch|0x20 <= 'z'; ch = c.now() {
		digits = digits && ch <= '9'
		c.at++
	}
	word := c.text[start:c.at]
	if word == "" || len(word) >= 1000 || asChar(c.now()) == end {
		return 0, false
	}
	for i, name := range names {
		if strings.EqualFold(name, word) {
			return i + low, true
		}
	}
	return atoi(word), digits
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
