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

// Entry is a line as cron of Debian has read it.
type Entry struct {
	Line   int
	Reboot bool // it runs when cron starts, and the sets are empty

	// Which are due, a bit for each: minute 0 is bit 0, day 1 and month 1 are bit 1, Sunday is bits 0 and 7.
	Minutes, Hours, Days, Months, Weekdays uint64
	// The field begins with *. With one of the last two, the day must match both.
	StarMinute, StarHour, StarDay, StarWeekday bool

	User    string   // of a system crontab
	Command string   // not yet taken apart at %
	Env     []string // NAME=value of the lines above, as it is written
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

// Load reads a crontab byte by byte as that program does, without this package's Parse. isUser says whether a name in a system
// crontab is one of the host; nil: every name is. The error is a *LoadError.
func Load(text []byte, f Format, d Dialect, isUser func(string) bool) ([]Entry, error) {
	if before, _, found := bytes.Cut(text, []byte{0}); found { // what that does depends on where it is
		return nil, &LoadError{1 + bytes.Count(before, []byte("\n")), "there is a zero byte in it"}
	}
	l := loader{system: f == System, dialect: d, isUser: isUser}
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
	_, err := Load(text, f, Debian, nil)
	if _, other := Load(text, f, Cronie, nil); err == nil || other == nil {
		return nil
	}
	wrong, _ := errors.AsType[*LoadError](err)
	return wrong
}

type loader struct {
	system  bool
	dialect Dialect
	isUser  func(string) bool
	line    int
	env     []string
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
		l.env = append(l.env, text)
		return nil
	}
	e := Entry{Line: l.line, Env: slices.Clip(l.env)}
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

// nicknames are read only.
var nicknames = map[string]string{
	"yearly": "0 0 1 1 *", "annually": "0 0 1 1 *", "monthly": "0 0 1 * *", "weekly": "0 0 * * 0",
	"daily": "0 0 * * *", "midnight": "0 0 * * *", "hourly": "0 * * * *",
}

var (
	monthNames   = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	weekdayNames = strings.Fields("sun mon tue wed thu fri sat sun")
)

// entry is load_entry of cron. It returns what that says of a line that is wrong.
func (l *loader) entry(e *Entry, c cursor) (why string) {
	if l.dialect == Cronie && c.now() == '-' {
		c.at++
	}
	if c.now() == '@' {
		word := c.text[c.at+1:]
		word = word[:strings.IndexAny(word, " \t\n")]
		c.at += 1 + len(word)
		switch fields, known := nicknames[word]; {
		case word == "reboot":
			e.Reboot = true
		case !known:
			return "bad time specifier"
		default:
			times := cursor{text: fields + "\n"}
			_ = l.times(e, &times)
			// What cron has for them is not always what the five fields have.
			e.StarMinute, e.StarHour = false, word == "hourly"
			e.StarDay, e.StarWeekday = word == "weekly", fields[len(fields)-1] == '*' && word[0] != 'd' && word[0] != 'h' && word != "midnight"
		}
		c.skipBlanks()
	} else if why := l.times(e, &c); why != "" {
		return why
	}
	if e.Weekdays&(1|1<<7) != 0 {
		e.Weekdays |= 1 | 1<<7
	}
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
		if e.User == "" || strings.Contains(e.User, "\n") || l.isUser != nil && !l.isUser(e.User) {
			return "bad username"
		}
	}
	e.Command = strings.TrimSuffix(c.text[c.at:], "\n")
	if len(e.Command) > MaxCommand && l.dialect == Debian {
		return "command too long"
	}
	return ""
}

func (l *loader) times(e *Entry, c *cursor) (why string) {
	for _, f := range []struct {
		set       *uint64
		star      *bool
		low, high int
		names     []string
		why       string
	}{
		{&e.Minutes, &e.StarMinute, 0, 59, nil, "bad minute"},
		{&e.Hours, &e.StarHour, 0, 23, nil, "bad hour"},
		{&e.Days, &e.StarDay, 1, 31, nil, "bad day-of-month"},
		{&e.Months, nil, 1, 12, monthNames, "bad month"},
		{&e.Weekdays, &e.StarWeekday, 0, 7, weekdayNames, "bad day-of-week"},
	} {
		if f.star != nil {
			*f.star = c.now() == '*'
		}
		if !l.list(c, f.set, f.low, f.high, f.names) {
			return f.why
		}
	}
	return ""
}

// list is get_list of cron. What follows an element up to a blank is passed over: 5x is no number, 5?x is 5.
func (l *loader) list(c *cursor, set *uint64, low, high int, names []string) bool {
	for {
		if !l.span(c, set, low, high, names) {
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
func (l *loader) span(c *cursor, set *uint64, low, high int, names []string) bool {
	from, to, step := low, high, 1
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
			return from >= low && from <= to && to <= high && put(set, low, high, from)
		case ch == '/':
			return false
		case ch != '-':
			return put(set, low, high, from)
		}
		c.at++
		if to, ok = c.number(low, names); !ok {
			return false
		}
	}
	if c.now() == '/' {
		c.at++
		var ok bool
		if step, ok = c.number(0, nil); !ok || step <= 0 {
			return false
		}
	}
	if from < low || from > high || to < low || to > high {
		return false
	}
	for i := from; i <= to; i += step {
		put(set, low, high, i)
	}
	return true
}

func put(set *uint64, low, high, number int) bool {
	if number < low || number > high {
		return false
	}
	*set |= 1 << number
	return true
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
