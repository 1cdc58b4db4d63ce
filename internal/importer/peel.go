package importer

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/duration"
)

// peeling is what a program in front of a command comes to.
type peeling struct {
	waits   bool     // it is a lock, and waits for another run to end
	options []option // of leaderrun run that do the same
	file    string   // of a lock
	rest    int      // how many of its words go, with those that were looked at
	line    bool     // what follows is one word for a shell
	why     string   // it stays: why
}

// peelers know the programs, by name. The words begin behind that. They are read only.
var peelers = map[string]func(words []crontab.Token) peeling{"flock": peelFlock, "setlock": peelSetlock, "timeout": peelTimeout}

// controls are operators that make more than one command of a line.
func controls(tokens []crontab.Token) bool {
	return slices.ContainsFunc(tokens, func(t crontab.Token) bool {
		return t.Operator && !strings.ContainsAny(t.Text, "<>") && !strings.HasPrefix(t.Text, "#")
	})
}

// peel takes file locks and limits off the front of a command where a run does the same, and says so. What stays is as good inside.
func (x *importer) peel(job *Job) {
	tokens, ok := crontab.Tokens(job.raw)
	if !ok || job.doubled() || controls(tokens) {
		return
	}
	at, limited, locked := 0, false, false // a limit, a lock was taken off
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
		case p.why != "":
		case p.file != "" && locked, p.file == "" && limited:
			p.why = "the run does what another did"
		case p.file != "" && slices.ContainsFunc(pieces(path.Base(path.Clean(p.file))), func(word string) bool { return x.users[word] > 1 }):
			p.why = "another line names its lock, too"
		case p.waits && limited:
			p.why = "the time that it waits counts for timeout"
		}
		if p.why != "" && name != "timeout" { // which is no less right inside
			job.look(name + " stays inside the run: " + p.why)
		}
		if p.why != "" {
			break
		}
		job.say("the run does what " + name + " did")
		limited, locked = limited || p.file == "", locked || p.file != ""
		job.options = append(job.options, p.options...)
		at += 1 + p.rest
		if p.line {
			rest := job.raw[tokens[at].Start:]
			job.raw = cmp.Or(job.Shell, "sh") + " -c " + rest
			if _, stdin := crontab.CutPercent(tokens[at].Text); at+1 == len(tokens) && tokens[at].Literal && stdin == "" {
				job.raw = tokens[at].Text
			}
			return
		}
	}
	if at > 0 {
		job.raw = job.raw[tokens[at].Start:]
	}
}

const (
	noCommand = "there is no command behind it"
	noOption  = "a run has nothing that is just -"
)

func peelFlock(words []crontab.Token) peeling {
	var p peeling
	atOnce, limit := false, "forever"
	found, n := crontab.ReadOptions(words, "w", "timeout", "wait", "E", "conflict-exit-code")
	for _, o := range found {
		number, err := strconv.Atoi(o.Value)
		switch o.Name {
		case "n", "nb", "nonblock", "nonblocking":
			atOnce = true
		case "w", "timeout", "wait":
			if err != nil || number < 0 || time.Duration(number) > duration.Longest/time.Second {
				return peeling{why: "it waits for " + quote(o.Value)}
			}
			atOnce, limit = atOnce || number == 0, o.Value+"s"
		case "E", "conflict-exit-code":
			if err != nil || number < 0 || number > 255 {
				return peeling{why: "its exit code is " + quote(o.Value)}
			}
			p.options = append(p.options, option{name: "-E", value: o.Value})
		case "x", "e", "exclusive":
		default:
			return peeling{why: noOption + o.Name}
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

func peelSetlock(words []crontab.Token) peeling {
	p := peeling{waits: true}
	found, n := crontab.ReadOptions(words)
	silent := false
	for _, o := range found {
		switch o.Name {
		case "n", "N":
			p.waits = o.Name == "N"
		case "x", "X":
			silent = o.Name == "x"
		default:
			return peeling{why: noOption + o.Name}
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

func peelTimeout(words []crontab.Token) peeling {
	var p peeling
	stays := peeling{why: "-"}
	found, n := crontab.ReadOptions(words, "s", "signal", "k", "kill-after")
	for _, o := range found {
		switch name := strings.TrimPrefix(strings.ToUpper(o.Value), "SIG"); {
		case (o.Name == "s" || o.Name == "signal") && (name == "TERM" || name == "15"):
		case o.Name == "k" || o.Name == "kill-after":
			if _, err := duration.Positive(o.Value); err != nil {
				return stays
			}
			p.options = append(p.options, option{name: "--kill-after", value: o.Value, key: "kill_after", keyValue: o.Value})
		default:
			return stays
		}
	}
	if len(words) < n+2 {
		return stays
	}
	limit := words[n].Text
	if _, err := duration.Positive(limit); err != nil || !words[n].Literal {
		return stays
	}
	p.options = slices.Insert(p.options, 0, option{name: "--timeout", value: limit, key: "timeout", keyValue: limit})
	p.rest = n + 1
	return p
}
