package jobfile

import "strings"

// spaces are what cron takes for blanks around the parts of a variable.
const spaces = " \t\v\f\r"

// assignment is a line that sets a variable.
type assignment struct {
	name, value string
	why         string // what is wrong with the value
}

// parseVariable reads NAME=value as crontab(5) has it: blanks around = do not count, nor those at the end; quotes
// around name or value are removed and keep the blanks within. Nothing is expanded, and no \ is special. ok is
// false for a line that does not set a variable.
func parseVariable(line string) (v assignment, ok bool) {
	var rest string
	if name, after, quoted, closed := cutQuoted(line); quoted {
		if !closed || strings.Contains(name, "=") {
			return v, false
		}
		v.name, rest = name, after
	} else {
		at := strings.IndexAny(line, "="+spaces)
		if at < 0 {
			return v, false
		}
		v.name, rest = line[:at], line[at:]
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, spaces), "=")
	if !ok {
		return v, false
	}
	rest = strings.TrimLeft(rest, spaces)
	text, after, quoted, closed := cutQuoted(rest)
	switch {
	case !quoted:
		v.value = strings.TrimRight(rest, spaces)
	case !closed:
		v.why = "the quote is not closed"
	case strings.Trim(after, spaces) != "":
		v.why = "there is text after the closing quote"
	default:
		v.value = text
	}
	return v, true
}

// cutQuoted takes a quoted text off the front of a line.
func cutQuoted(line string) (text, after string, quoted, closed bool) {
	if line == "" || line[0] != '"' && line[0] != '\'' {
		return "", line, false, false
	}
	text, after, closed = strings.Cut(line[1:], line[:1])
	return text, after, true, closed
}

// splitPercent takes a command apart as cron(8) does. It ends at the first % that no \ precedes. Before that \% is
// a plain % and \\ is one \; any other \ is left alone. What follows the first % is what the command reads: there
// each further % is the end of a line, \% is a plain %, any other \ is left alone, and the last line is ended.
func splitPercent(command string) (line, stdin string) {
	var b strings.Builder
	i := 0
	for ; i < len(command) && command[i] != '%'; i++ {
		if command[i] == '\\' && i+1 < len(command) && (command[i+1] == '%' || command[i+1] == '\\') {
			i++
		}
		b.WriteByte(command[i])
	}
	if i+1 >= len(command) {
		return b.String(), ""
	}
	stdin = command[i+1:]
	stdin = strings.NewReplacer(`\%`, "%", "%", "\n").Replace(stdin)
	if !strings.HasSuffix(stdin, "\n") {
		stdin += "\n"
	}
	return b.String(), stdin
}
