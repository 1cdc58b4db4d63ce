// Package crontab reads crontabs line by line and loses no byte of them: what it does not understand is kept, and said.
//
// Parse takes a file apart for whoever changes it or runs it. Load reads it as cron of Debian does, byte by byte, and says
// whether that would take it at all: one wrong line makes cron ignore a whole file. Name and Names give jobs their names.
package crontab

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Format is a kind of crontab.
type Format int

// The kinds.
const (
	User        Format = iota // five fields and a command
	System                    // with a user's name between them: /etc/crontab, /etc/cron.d
	Supercronic               // perhaps with seconds before the five fields, and a year behind them; no % in commands
)

// FormatOf is what cron reads a file as.
func FormatOf(path string) Format {
	abs, err := filepath.Abs(path)
	if err == nil && (abs == "/etc/crontab" || filepath.Dir(abs) == "/etc/cron.d") {
		return System
	}
	return User
}

// Kind says what a line is.
type Kind int

// The kinds of lines.
const (
	Blank Kind = iota
	Comment
	Setting // a variable
	Job
	Broken // neither of them; cron ignores the whole file
)

// Line is one line of a crontab.
type Line struct {
	Number int    // from 1
	Text   string // as it stands in the file, with its end if it has one
	Kind   Kind

	Name, Value string // of a Setting; a Broken one has the name alone

	// Of a Job:
	Quiet   bool   // it begins with -, which keeps cronie from logging it
	Seconds string // of supercronic; "": none
	Fields  string // five words with one blank between them, or @daily and the like, or @every D
	Year    string // of supercronic; "": none
	User    string // of a system crontab
	Command string // to the end of the line, as it is written
	At      int    // where Command begins in Text

	Why, Hint string // of a Broken one: what is wrong, and the remedy
}

// End is how the line ends: "\n", "\r\n", or "" at the end of a file without a newline.
func (l *Line) End() string {
	return l.Text[len(strings.TrimSuffix(strings.TrimSuffix(l.Text, "\n"), "\r")):]
}

// NameIn is the name that a comment "# job: NAME" gives to the job below it.
func NameIn(comment string) (name string, ok bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(comment), "#")
	if !ok {
		return "", false
	}
	name, ok = strings.CutPrefix(strings.TrimSpace(text), "job:")
	if !ok {
		return "", false
	}
	return strings.TrimSpace(name), true
}

// Script is what the shell gets of a Job's command, and what that reads. The format is that of the file.
func (l *Line) Script(f Format) (script, stdin string) {
	if f == Supercronic {
		return l.Command, ""
	}
	return SplitPercent(l.Command)
}

// Parse takes a crontab apart. The texts of its lines make up the file again. No input panics.
func Parse(text []byte, f Format) []Line {
	all := make([]Line, 0, 1+bytes.Count(text, []byte("\n")))
	for piece := range strings.Lines(string(text)) {
		all = append(all, parseLine(piece, f))
		all[len(all)-1].Number = len(all)
	}
	return all
}

func parseLine(text string, f Format) Line {
	l := Line{Text: text}
	body := strings.TrimSuffix(text, l.End())
	body = strings.TrimLeft(body, blanks)
	switch {
	case body == "":
		l.Kind = Blank
		return l
	case body[0] == '#':
		l.Kind = Comment
		return l
	}
	switch v, ok := ParseVariable(body); {
	case ok && v.Why != "":
		l.Kind, l.Name, l.Why, l.Hint = Broken, v.Name, v.Why, `quotes hold the whole value or none of it: NAME="a value"`
		return l
	case ok:
		l.Kind, l.Name, l.Value = Setting, v.Name, v.Value
		return l
	}
	body, l.Quiet = strings.CutPrefix(body, "-")
	var ok bool
	if f == Supercronic {
		l.Command, ok = l.supercronic(body)
	} else {
		l.Fields, l.Command, ok = SplitSchedule(body)
	}
	if ok && f == System {
		l.User, l.Command = CutWord(l.Command)
		ok = l.Command != ""
	}
	switch first, _ := CutWord(body); {
	case ok && strings.HasSuffix(l.Command, "\r"): // before a line end of Windows: \r\r\n
		l.Why, l.Hint = "a carriage return at the end of the command", "remove it"
	case ok:
		l.Kind, l.At = Job, strings.LastIndex(text, l.Command)
		return l
	case first == "export":
		l.Why, l.Hint = "neither a variable nor a schedule with a command", "a variable is NAME=value, without export"
	case f == System:
		l.Why, l.Hint = "neither a variable nor a schedule with a user and a command", "write minute, hour, day of month, month, day of week, the user and the command"
	default:
		l.Why, l.Hint = "neither a variable nor a schedule with a command", "write minute, hour, day of month, month, day of week and the command"
	}
	return Line{Text: text, Kind: Broken, Why: l.Why, Hint: l.Hint}
}

// The fields of supercronic that tell how many there are.
var (
	isTime = pattern(`(?i)^(?:[-0-9*?,/#LW]|sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)+$`)
	isYear = pattern(`^(?:\*|[12][0-9]{3})(?:[-,/][0-9]+)*$`)
)

func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// supercronic sets the schedule. That program tries seven fields, six, five and one, in this order.
func (l *Line) supercronic(line string) (command string, ok bool) {
	for _, n := range []int{7, 6} {
		expr, rest, ok := splitWords(line, n)
		if !ok {
			continue
		}
		words := strings.Split(expr, " ")
		year := words[n-1]
		times := words[:n-1]
		if !isYear().MatchString(year) || !isTime().MatchString(strings.Join(times, "")) {
			continue
		}
		if n == 7 {
			l.Seconds, times = times[0], times[1:]
		}
		l.Fields, l.Year = strings.Join(times, " "), year
		return rest, true
	}
	l.Fields, command, ok = SplitSchedule(line)
	return command, ok
}

// NotOurs says what of the schedule of a Job leaderrun does not have, or takes in another way; "": nothing.
func (l *Line) NotOurs(f Format) (why, hint string) {
	switch fields := strings.Fields(l.Fields); {
	case strings.Trim(l.Seconds, "0") != "":
		return "schedules of leaderrun have no seconds", "@every 30s is one, for the daemon"
	case l.Year != "" && l.Year != "*":
		return "schedules of leaderrun have no year", ""
	case f == Supercronic && len(fields) == 5 && fields[2] != "*" && fields[4] != "*" && strings.ContainsRune(fields[2][:1]+fields[4][:1], '*'):
		return "supercronic takes days that either field names, and leaderrun those that both name", "write the range in the place of *, as in 1-31/2"
	}
	return "", ""
}

// Ignored says whether cron of Debian, or that of cronie, leaves out a file of this name in a directory such as /etc/cron.d.
func Ignored(name string) (why string, ignored bool) {
	switch {
	case name == "":
		return "it has no name", true
	case strings.HasPrefix(name, "."):
		return "its name begins with a dot, so cron leaves it out", true
	case !isRunPart().MatchString(name):
		return "its name has other characters than letters, digits, - and _, so cron of Debian leaves it out", true
	}
	return "", false
}

var isRunPart = pattern(`^[a-zA-Z0-9_-]+$`)
