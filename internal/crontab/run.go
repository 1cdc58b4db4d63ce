package crontab

import (
	"path"
	"slices"
	"strings"
)

// Run is a call of `leaderrun run` as it stands in a command.
type Run struct {
	Job      string
	Before   int                 // how many words stand between leaderrun and the job
	Options  map[string][]string // by their long names; a switch has the value ""
	Command  []Token             // what stands behind the job and --
	From, To int                 // the place of the call in the tokens
	called   Token               // where this is no call of it: the word in the place of run
}

// Option is the last value of an option; "": it is not there.
func (r *Run) Option(name string) string {
	if all := r.Options[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// Run looks for a call of `leaderrun run` in a script, also behind what starts it, such as a variable or nice, but not in the texts within.
// ok is false where there is none.
func (s *Script) Run() (run Run, ok bool) {
	for i, t := range s.Tokens {
		if t.Operator || path.Base(t.Text) != "leaderrun" {
			continue
		}
		end := i + 1
		for end < len(s.Tokens) && !s.Tokens[end].Operator {
			end++
		}
		if run, ok = readRun(s.Tokens[i+1 : end]); ok {
			run.From, run.To = i, end
			return run, true
		}
	}
	return Run{}, false
}

// OtherCall looks for a call of leaderrun, also behind what starts it, that is no call of `leaderrun run`. It returns the word in the
// place of run. ok is false where there is none.
func (s *Script) OtherCall() (word Token, ok bool) {
	for _, words := range s.Commands {
		if path.Base(words[0].Text) != "leaderrun" {
			continue
		}
		if run, isRun := readRun(words[1:]); !isRun && run.called.Text != "" {
			return run.called, true
		}
	}
	return Token{}, false
}

// Switches are the options of run that take no value, ShortOptions the short names of others.
var (
	Switches     = []string{"shell", "quiet", "help"} // read only
	ShortOptions = map[string]string{"w": "wait", "k": "kill-after", "E": "conflict-exit-code", "h": "help"}
)

// readRun reads the words behind leaderrun. ok is false if they call something else.
func readRun(words []Token) (run Run, ok bool) {
	all := len(words)
	run.Options = map[string][]string{}
	for len(words) > 0 {
		token, word := words[0], words[0].Text
		words = words[1:]
		switch {
		case word == "--" && ok:
			if run.Before = all - len(words); len(words) > 0 {
				run.Job, run.Command = words[0].Text, words[1:]
			}
			return run, true
		case len(word) > 1 && word[0] == '-':
			name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if long, short := ShortOptions[name]; short {
				name = long
			}
			if !given && !slices.Contains(Switches, name) && len(words) > 0 {
				value, words = words[0].Text, words[1:]
			}
			run.Options[name] = append(run.Options[name], value)
		case !ok && word == "run":
			ok = true
		case !ok:
			return Run{called: token}, false
		default:
			run.Job, run.Before = word, all-len(words)-1
			if len(words) > 0 && words[0].Text == "--" {
				words = words[1:]
			}
			run.Command = words
			return run, true
		}
	}
	run.Before = all
	return run, ok
}
