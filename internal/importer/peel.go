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

// fronts are the programs in front of a command of which a run does the same, with the options that are understood: a word holds the names
// of one. They are read only.
var fronts = map[string]string{
	"flock":   "n,nb,nonblock,nonblocking w,timeout,wait E,conflict-exit-code x,e,exclusive",
	"setlock": "n N x X",
	"timeout": "s,signal k,kill-after",
}

// peeling is what a program in front of a command comes to.
type peeling struct {
	waits   bool     // it is a lock, and waits for another run to end
	options []option // of leaderrun run that do the same
	file    string   // of a lock
	rest    int      // how many of its words go, with those that were looked at
	line    bool     // what follows is one word for a shell
	why     string   // it stays: why
}

// controls are operators that make more than one command of a line.
func controls(tokens []crontab.Token) bool {
	return slices.ContainsFunc(tokens, func(t crontab.Token) bool {
		return t.Operator && !strings.ContainsAny(t.Text, "<>") && !strings.HasPrefix(t.Text, "#")
	})
}

// peel takes file locks and limits off the front of a command where a run does the same, and says so. What stays is as good inside.
func (x *importer) peel(job *Job, command *crontab.Script) {
	tokens := command.Tokens
	if !command.Ended || job.doubled() || controls(tokens) {
		return
	}
	at, limited, locked := 0, false, false // a limit, a lock was taken off
	for at < len(tokens) && !tokens[at].Operator && tokens[at].Literal {
		name := path.Base(tokens[at].Text)
		if fronts[name] == "" {
			break
		}
		words := tokens[at+1:]
		if end := slices.IndexFunc(words, func(t crontab.Token) bool { return t.Operator }); end >= 0 {
			words = words[:end]
		}
		p := peelFront(name, words)
		switch {
		case p.why != "":
		case p.file != "" && locked, p.file == "" && limited:
			p.why = "the run does what another did"
		case p.file != "" && x.isShared(p.file):
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

// peelFront looks at one of the fronts and the words behind it.
func peelFront(name string, words []crontab.Token) peeling {
	given, n, unknown := optionsOf(name, words)
	_, atOnce := given["n"]
	_, patient := given["N"]
	_, silent := given["x"]
	limit, limited := given["w"]
	code, coded := given["E"]
	switch {
	case unknown != "" || atOnce && patient:
		return peeling{why: "a run has nothing that is just -" + cmp.Or(unknown, "N")}
	case limited && !isBelow(limit, int(duration.Longest/time.Second)+1):
		return peeling{why: "it waits for " + quote(limit)}
	case coded && !isBelow(code, 256):
		return peeling{why: "its exit code is " + quote(code)}
	case len(words) < n+2:
		return peeling{why: "there is no command behind it"}
	case !words[n].Literal, name == "flock" && strings.Trim(words[n].Text, "0123456789") == "":
		return peeling{why: "its lock is not a file that is named"}
	case name == "timeout":
		return peelTimeout(given, words[n].Text, n+1)
	}
	p := peeling{file: words[n].Text, rest: n + 1, waits: !atOnce && (!limited || strings.Trim(limit, "0") != "")}
	switch {
	case p.waits && limit != "":
		p.options = []option{{name: "--wait", value: limit + "s"}}
	case p.waits:
		p.options = []option{{name: "--wait", value: "forever", key: "overlap", keyValue: "wait"}}
	case name == "setlock" && !silent:
		code = "111"
	}
	if code != "" {
		p.options = append(p.options, option{name: "-E", value: code})
	}
	if c := words[n+1].Text; name == "flock" && (c == "-c" || c == "--command") {
		p.rest, p.line = n+2, true
		if len(words) != n+3 {
			return peeling{why: "there is more than a command behind it"}
		}
	}
	return p
}

func peelTimeout(given map[string]string, limit string, rest int) peeling {
	p := peeling{options: []option{{name: "--timeout", value: limit, key: "timeout", keyValue: limit}}, rest: rest}
	_, err := duration.Positive(limit)
	if kill, ok := given["k"]; ok && err == nil {
		_, err = duration.Positive(kill)
		p.options = append(p.options, option{name: "--kill-after", value: kill, key: "kill_after", keyValue: kill})
	}
	if err != nil || !slices.Contains([]string{"", "TERM", "15"}, strings.TrimPrefix(strings.ToUpper(given["s"]), "SIG")) {
		p.why = "a run has no such limit"
	}
	return p
}

// optionsOf reads those that a front has, by their first names. n is how many words they are, and unknown is one of which nothing is known.
func optionsOf(front string, words []crontab.Token) (given map[string]string, n int, unknown string) {
	first := map[string]string{}
	for names := range strings.FieldsSeq(fronts[front]) {
		for name := range strings.SplitSeq(names, ",") {
			first[name], _, _ = strings.Cut(names, ",")
		}
	}
	given = map[string]string{}
	found, n := crontab.ReadOptions(front, words)
	for _, o := range found {
		if first[o.Name] == "" {
			return nil, n, o.Name
		}
		given[first[o.Name]] = o.Value
	}
	return given, n, ""
}

// isBelow says whether a text is a number from 0 on below another.
func isBelow(text string, end int) bool {
	number, err := strconv.Atoi(text)
	return err == nil && number >= 0 && number < end
}
