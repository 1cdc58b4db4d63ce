package importer

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// peeling is what a program in front of a command comes to.
type peeling struct {
	lock    bool     // it keeps two runs apart
	waits   bool     // for the other one to end
	options []option // of leaderrun run that do the same
	file    string   // of the lock; "": it has none of this host
	rest    int      // how many of its words go, with those that were looked at; 0: it stays
	line    bool     // what follows is one word for a shell
	why     string   // it stays: why
}

// peelers know the programs, by name. The words begin behind that. They are read only.
var peelers = map[string]func(words []crontab.Token) peeling{
	"flock": peelFlock, "setlock": peelSetlock, "lockrun": peelLockrun, "cronlock": peelCronlock,
	"consul": peelConsul, "etcdctl": peelEtcdctl, "timeout": peelTimeout,
	"chronic": stays(0), "nice": stays('n'), "ionice": stays('c', 'n'), "runitor": peelRunitor,
}

// controls are operators that make more than one command of a line.
func controls(tokens []crontab.Token) bool {
	return slices.ContainsFunc(tokens, func(t crontab.Token) bool {
		return t.Operator && !strings.ContainsAny(t.Text, "<>") && !strings.HasPrefix(t.Text, "#")
	})
}

// peel takes locks and limits off the front of a command, and says what it leaves.
func (x *importer) peel(f *File, l *crontab.Line, job *Job) {
	tokens, ok := crontab.Tokens(job.raw)
	if !ok || job.doubled() || controls(tokens) {
		x.warnOfLock(f, l, job.raw)
		return
	}
	var kept strings.Builder
	at := 0                         // of the tokens
	locked, limited := false, false // a lock, and a limit, were taken off
	told := false                   // of the lock that is next
	for at < len(tokens) && !tokens[at].Operator && tokens[at].Literal {
		name := path.Base(tokens[at].Text)
		peeler, known := peelers[name]
		if !known {
			break
		}
		words := tokens[at+1:]
		if end := slices.IndexFunc(words, func(t crontab.Token) bool { return t.Operator }); end >= 0 {
			words = words[:end]
		}
		p := peeler(words)
		switch {
		case p.why == "" && p.lock && p.file != "" && x.usersOf(p.file) > 1:
			p.why = "its lock file is that of other lines too"
		case p.why == "" && p.lock && locked && (hasSlots(p.options) || hasSlots(job.options)):
			p.why = "of it and the lock before it, one lets more than one run at a time"
		case p.why == "" && p.lock && p.waits && limited:
			p.why = "the time that it waits counts for timeout"
		}
		if p.why != "" {
			x.note(f, l, Note{Why: name + " stays inside the run: " + p.why})
			told = true
			break
		}
		next := at + 1 + p.rest
		if !p.lock && len(p.options) == 0 { // it goes on to stand before the command
			kept.WriteString(job.raw[tokens[at].Start:tokens[next].Start])
			x.note(f, l, Note{Why: name + " stays, inside the run", Info: true})
		} else {
			x.note(f, l, Note{Why: name + " is what leaderrun does", Info: true})
		}
		locked = locked || p.lock
		limited = limited || len(p.options) > 0 && !p.lock
		job.options = append(job.options, p.options...)
		at = next
		if p.line {
			kept.WriteString(cmp.Or(job.Shell, "sh") + " -c ")
			break
		}
	}
	if !told {
		x.warnOfLock(f, l, job.raw[min(len(job.raw), append(tokens, crontab.Token{Start: len(job.raw)})[at].Start):])
	}
	if at > 0 && at < len(tokens) {
		job.raw = kept.String() + job.raw[tokens[at].Start:]
	}
}

// warnOfLock tells of a lock that stays because it stands further inside the command.
func (x *importer) warnOfLock(f *File, l *crontab.Line, script string) {
	if name := crontab.FindLock(script); name != "" {
		x.note(f, l, Note{Why: name + " stays inside the run", Hint: "a run needs no lock; take it out where nothing else uses it"})
	}
}

// usersOf counts the lines that name a file: as a lock, by a descriptor, or in the text of a shell.
func (x *importer) usersOf(file string) int {
	isPath := func(b byte) bool {
		return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("_-./", b) >= 0
	}
	users := 0
	for _, line := range x.lines {
		for from := 0; ; from++ {
			at := strings.Index(line[from:], file)
			if at < 0 {
				break
			}
			from += at
			end := from + len(file)
			if (from == 0 || !isPath(line[from-1])) && (end == len(line) || !isPath(line[end])) {
				users++
				break
			}
		}
	}
	return users
}

// spelled is an option as it was found: its name without dashes, and its value if it has one.
type spelled struct{ name, value string }

// readOptions reads options up to the first word that is none. valued are the letters and names of those with a value. Letters may
// stand together. n is how many words that were, with a -- at the end.
func readOptions(words []crontab.Token, valued ...string) (found []spelled, n int) {
	for n < len(words) {
		word := words[n].Text
		switch {
		case !words[n].Literal || len(word) < 2 || word[0] != '-':
			return found, n
		case word == "--":
			return found, n + 1
		}
		n++
		if long, ok := strings.CutPrefix(word, "--"); ok || slices.Contains(valued, word[1:]) || len(word) > 2 && strings.Contains(word, "=") {
			if !ok {
				long = word[1:]
			}
			name, value, given := strings.Cut(long, "=")
			if !given && slices.Contains(valued, name) && n < len(words) {
				value = words[n].Text
				n++
			}
			found = append(found, spelled{name, value})
			continue
		}
		for i := 1; i < len(word); i++ {
			letter := word[i : i+1]
			o := spelled{name: letter}
			if slices.Contains(valued, letter) {
				if o.value = word[i+1:]; o.value == "" && n < len(words) {
					o.value = words[n].Text
					n++
				}
				i = len(word)
			}
			found = append(found, o)
		}
	}
	return found, n
}

func unknown(o spelled) peeling {
	dashes := "-"
	if len(o.name) > 1 {
		dashes = "--"
	}
	return peeling{why: "leaderrun has nothing that is just " + dashes + o.name}
}

const noCommand = "there is no command behind it"

func peelFlock(words []crontab.Token) peeling {
	p := peeling{lock: true}
	atOnce, limit := false, "forever"
	found, n := readOptions(words, "w", "timeout", "wait", "E", "conflict-exit-code")
	for _, o := range found {
		switch o.name {
		case "n", "nb", "nonblock", "nonblocking":
			atOnce = true
		case "w", "timeout", "wait":
			seconds, err := strconv.Atoi(o.value)
			if err != nil || seconds < 0 || time.Duration(seconds) > duration.Longest/time.Second {
				return peeling{why: fmt.Sprintf("it waits for %q", o.value)}
			}
			atOnce, limit = atOnce || seconds == 0, o.value+"s"
		case "E", "conflict-exit-code":
			if code, err := strconv.Atoi(o.value); err != nil || code < 0 || code > 255 {
				return peeling{why: fmt.Sprintf("its exit code is %q", o.value)}
			}
			p.options = append(p.options, option{name: "-E", value: o.value})
		case "x", "e", "exclusive":
		default:
			return unknown(o)
		}
	}
	if p.waits = !atOnce; p.waits {
		p.options = slices.Insert(p.options, 0, waits(limit))
	}
	switch {
	case len(words) < n+2:
		return peeling{why: noCommand}
	case strings.Trim(words[n].Text, "0123456789") == "" || !words[n].Literal:
		return peeling{why: "its lock is not a file that is named"}
	}
	p.file, p.rest = words[n].Text, n+1
	if c := words[n+1].Text; c == "-c" || c == "--command" {
		p.rest, p.line = n+2, true
		if len(words) != n+3 {
			return peeling{why: noCommand}
		}
	}
	return p
}

// waits is the option to wait for another run to end.
func waits(d string) option {
	o := option{name: "--wait", value: d}
	if d == "forever" {
		o.key, o.keyValue = "overlap", "wait"
	}
	return o
}

// slotsOption is the option of a job that runs several times at once.
const slotsOption = "--slots"

// hasSlots says whether a job may run several times at once. Then each host runs it when cron starts the line: it has no ticks.
func hasSlots(options []option) bool {
	return slices.ContainsFunc(options, func(o option) bool { return o.name == slotsOption })
}

func peelSetlock(words []crontab.Token) peeling {
	p := peeling{lock: true, waits: true}
	found, n := readOptions(words)
	silent := false
	for _, o := range found {
		switch o.name {
		case "n", "N":
			p.waits = o.name == "N"
		case "x", "X":
			silent = o.name == "x"
		default:
			return unknown(o)
		}
	}
	switch {
	case len(words) < n+2 || !words[n].Literal:
		return peeling{why: noCommand}
	case p.waits:
		p.options = append(p.options, waits("forever"))
	case !silent:
		p.options = append(p.options, option{name: "-E", value: "111"})
	}
	p.file, p.rest = words[n].Text, n+1
	return p
}

func peelLockrun(words []crontab.Token) peeling {
	p := peeling{lock: true}
	found, n := readOptions(words, "L", "lockfile")
	for _, o := range found {
		switch o.name {
		case "L", "lockfile":
			p.file = strings.TrimPrefix(o.value, "=")
		case "W", "wait":
			p.waits = true
		case "Q", "quiet", "I", "idempotent":
		default:
			return unknown(o)
		}
	}
	if n >= len(words) || words[max(n-1, 0)].Text != "--" {
		return peeling{why: noCommand}
	}
	if p.waits {
		p.options = append(p.options, waits("forever"))
	}
	p.rest = n
	return p
}

func peelCronlock(words []crontab.Token) peeling {
	if len(words) == 0 || strings.HasPrefix(words[0].Text, "-") {
		return peeling{why: noCommand}
	}
	return peeling{lock: true}
}

func peelConsul(words []crontab.Token) peeling {
	if len(words) == 0 || words[0].Text != "lock" {
		return peeling{why: "only its lock is a lock"}
	}
	words = slices.Clone(words[1:])
	for i, t := range words { // -name and --name are one
		if len(t.Text) > 2 && t.Text[0] == '-' && t.Text[1] != '-' {
			words[i].Text = "-" + t.Text
		}
	}
	p := peeling{lock: true, waits: true}
	found, n := readOptions(words, "try", "timeout", "n", "name", "http-addr", "token", "token-file", "datacenter", "ca-file", "client-cert", "client-key", "monitor-retry")
	shell, several := true, []option(nil)
	for _, o := range found {
		switch o.name {
		case "try", "timeout":
			if _, err := duration.Positive(o.value); err != nil {
				return peeling{why: fmt.Sprintf("it waits for %q", o.value)}
			}
			p.options = []option{waits(o.value)}
		case "n":
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 1 || n > slots.Most {
				return peeling{why: fmt.Sprintf("it lets %q run at a time", o.value)}
			}
			if n > 1 {
				several = []option{{name: slotsOption, value: o.value}}
			}
		case "shell":
			shell = o.value != "false"
		case "name", "http-addr", "token", "token-file", "datacenter", "ca-file", "client-cert", "client-key", "monitor-retry", "pass-stdin", "child-exit-code":
		default:
			return unknown(o)
		}
	}
	if len(p.options) == 0 {
		p.options = []option{waits("forever")}
	}
	p.options = append(several, p.options...)
	switch {
	case len(words) < n+2:
		return peeling{why: noCommand}
	case shell && len(words) == n+2 && words[n+1].Quoted:
		p.line = true
	case shell && slices.ContainsFunc(words[n+1:], func(t crontab.Token) bool { return t.Quoted || !t.Literal }):
		return peeling{why: "it gives its words to a shell again"}
	}
	p.rest = n + 2
	return p
}

func peelEtcdctl(words []crontab.Token) peeling {
	_, before := readOptions(words, "endpoints", "cacert", "cert", "key", "user", "dial-timeout", "command-timeout")
	if before >= len(words) || words[before].Text != "lock" {
		return peeling{why: "only its lock is a lock"}
	}
	p := peeling{lock: true, waits: true, options: []option{waits("forever")}}
	valued := []string{"ttl", "endpoints", "cacert", "cert", "key", "user"}
	found, n := readOptions(words[before+1:], valued...)
	if p.rest = before + 1 + n + 1; p.rest < len(words) { // options may stand behind the name, too, with -- at their end
		more, n := readOptions(words[p.rest:], valued...)
		found, p.rest = append(found, more...), p.rest+n
	}
	for _, o := range found {
		switch o.name {
		case "ttl":
			if ttl, err := strconv.Atoi(o.value); err != nil || ttl < 5 {
				return peeling{why: "a lease of leaderrun has 5 s at least"}
			}
			p.options = append(p.options, option{name: "--ttl", value: o.value + "s", key: "ttl", keyValue: o.value + "s"})
		case "endpoints", "cacert", "cert", "key", "user":
		default:
			return unknown(o)
		}
	}
	if len(words) <= p.rest {
		return peeling{why: noCommand}
	}
	return p
}

func peelTimeout(words []crontab.Token) peeling {
	var p peeling
	found, n := readOptions(words, "s", "signal", "k", "kill-after")
	for _, o := range found {
		switch name := strings.TrimPrefix(strings.ToUpper(o.value), "SIG"); {
		case (o.name == "s" || o.name == "signal") && (name == "TERM" || name == "15"):
		case o.name == "k" || o.name == "kill-after":
			d, err := duration.Positive(o.value)
			if err != nil || d <= 0 {
				return peeling{why: fmt.Sprintf("it kills after %q", o.value)}
			}
			p.options = append(p.options, option{name: "--kill-after", value: o.value, key: "kill_after", keyValue: o.value})
		default:
			return unknown(o)
		}
	}
	if len(words) < n+2 {
		return peeling{why: noCommand}
	}
	limit := words[n].Text
	if _, err := duration.Positive(limit); err != nil || !words[n].Literal {
		return peeling{why: fmt.Sprintf("its time is %q", limit)}
	}
	p.options = slices.Insert(p.options, 0, option{name: "--timeout", value: limit, key: "timeout", keyValue: limit})
	p.rest = n + 1
	return p
}

// stays makes the peeler of a program that means the same inside the run, where it belongs. The letters are options with a value.
func stays(letters ...rune) func([]crontab.Token) peeling {
	valued := []string{"adjustment", "class", "classdata"}
	for _, letter := range letters {
		valued = append(valued, string(letter))
	}
	return func(words []crontab.Token) peeling {
		_, n := readOptions(words, valued...)
		if n >= len(words) {
			return peeling{why: noCommand}
		}
		return peeling{rest: n}
	}
}

func peelRunitor(words []crontab.Token) peeling {
	at := slices.IndexFunc(words, func(t crontab.Token) bool { return t.Text == "--" })
	if at < 0 || at+1 >= len(words) {
		return peeling{why: noCommand}
	}
	return peeling{rest: at + 1}
}
