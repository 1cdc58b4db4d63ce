package crontab

import "strings"

// blanks are what cron takes for blanks between fields.
const blanks = " \t"

// spaces are what cron takes for blanks around the parts of a variable.
const spaces = " \t\v\f\r"

// Variable is a line that sets a variable.
type Variable struct {
	Name, Value string
	Why         string // what is wrong with the value; "": nothing
}

// ParseVariable reads NAME=value as crontab(5) has it: blanks around = do not count, nor those at the end; quotes
// around name or value are removed and keep the blanks within. Nothing is expanded, and no \ is special. ok is
// false for a line that does not set a variable.
func ParseVariable(line string) (v Variable, ok bool) {
	m := variable().FindStringSubmatch(line)
	if m == nil {
		return v, false
	}
	v.Name = m[1] + m[2] + m[3]
	text, after, quoted, closed := cutQuoted(m[4])
	switch {
	case !quoted:
		v.Value = strings.TrimRight(m[4], spaces)
	case !closed:
		v.Why = "the quote is not closed"
	case strings.Trim(after, spaces) != "":
		v.Why = "there is text after the closing quote"
	default:
		v.Value = text
	}
	return v, true
}

// variable is a name, perhaps in quotes, and what follows =.
var variable = pattern(`(?s)^(?:"([^"=]*)"|'([^'=]*)'|([^"'= \t\v\f\r][^= \t\v\f\r]*|))[ \t\v\f\r]*=[ \t\v\f\r]*(.*)$`)

// cutQuoted takes a quoted text off the front of a line.
func cutQuoted(line string) (text, after string, quoted, closed bool) {
	if line == "" || line[0] != '"' && line[0] != '\'' {
		return "", line, false, false
	}
	text, after, closed = strings.Cut(line[1:], line[:1])
	return text, after, true, closed
}

// SplitPercent takes a command apart as cron(8) of Debian does. It ends at the first % that no \ precedes. Before that \% is
// a plain % and \\ is one \; any other \ is left alone. What follows the first % is what the command reads: there
// each further % is the end of a line, \% is a plain %, any other \ is left alone, and the last line is ended.
func SplitPercent(command string) (line, stdin string) {
	before, after := CutPercent(command)
	line = inLine.Replace(before)
	if len(after) < len("%x") {
		return line, ""
	}
	stdin = inStdin.Replace(after[1:])
	if !strings.HasSuffix(stdin, "\n") {
		stdin += "\n"
	}
	return line, stdin
}

// What \ and % are before the first % and behind it.
var (
	inLine  = strings.NewReplacer(`\%`, "%", `\\`, `\`)
	inStdin = strings.NewReplacer(`\%`, "%", "%", "\n")
)

// CutPercent cuts a command before the first % that no \ precedes. Both parts are as they are written; after is empty or begins
// with that %.
func CutPercent(command string) (before, after string) {
	for i := 0; i < len(command); i++ {
		switch command[i] {
		case '%':
			return command[:i], command[i:]
		case '\\':
			i++
		}
	}
	return command, ""
}

// IsCutShort says whether cron ends a command at a % that was not meant for it: within quotes, or as in date +%F, --format=%H and
// http://host/a%20b.
func IsCutShort(command string) bool {
	before, after := CutPercent(command)
	if after == "" {
		return false
	}
	script, _ := SplitPercent(before)
	_, ended := Tokens(script)
	word := before[strings.LastIndexAny(before, " \t")+1:]
	isCode := len(after) > 2 && strings.Trim(after[1:3], "0123456789abcdefABCDEF") == ""
	return !ended || strings.HasSuffix(strings.TrimRight(before, `"'`), "+") ||
		strings.HasPrefix(word, "-") && strings.HasSuffix(word, "=") || strings.Contains(word, "://") && isCode
}

// SplitSchedule takes schedule and command apart: five words, or one that begins with @, or @every and one more. The words of
// expr have one blank between them; the command reaches to the end of the line, blanks included.
func SplitSchedule(line string) (expr, command string, ok bool) {
	words := 5
	switch first, _ := CutWord(line); {
	case first == "@every":
		words = 2
	case strings.HasPrefix(first, "@"):
		words = 1
	}
	return splitWords(line, words)
}

func splitWords(line string, words int) (expr, command string, ok bool) {
	command = line
	fields := make([]string, words)
	for i := range fields {
		if command == "" {
			return "", "", false
		}
		fields[i], command = CutWord(command)
	}
	return strings.Join(fields, " "), command, command != ""
}

// CutWord cuts a text at its first blanks.
func CutWord(text string) (word, rest string) {
	at := strings.IndexAny(text, blanks)
	if at < 0 {
		return text, ""
	}
	return text[:at], strings.TrimLeft(text[at:], blanks)
}
