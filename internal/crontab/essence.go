package crontab

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Essence is what a script does, whatever guards it and takes its output, with leaderrun and without it. Scripts of one essence are
// one job.
func (s *Script) Essence() string { return s.essence(0) }

func (s *Script) essence(depth int) string {
	var all []string
	for _, words := range s.simple {
		words = unguarded(words)
		texts := forShell(words, "")
		var parts []string
		for i, t := range words {
			isText := slices.ContainsFunc(texts, func(s *Script) bool { return s.Text == t.Text })
			switch {
			case depth < deepest && (isText || len(words) == 1 && t.Quoted && strings.ContainsAny(t.Text, blanks)):
				parts = append(parts, split("", t.Text).essence(depth+1))
			case len(texts) == 0, !Is(path.Base(words[0].Text), "shell"):
				parts = append(parts, t.Text)
			case !strings.HasPrefix(t.Text, "-") && i > 0: // what the text of a shell gets
				parts = append(parts, t.Text)
			}
		}
		if len(parts) > 0 {
			all = append(all, strings.Join(parts, " "))
		}
	}
	return strings.Join(all, "\n")
}

// unguarded is a simple command without what stands before it.
func unguarded(words []Token) []Token {
	for len(words) > 0 {
		program := path.Base(words[0].Text)
		options, starts := starterOf(words)
		switch {
		case program == "leaderrun":
			run, ok := readRun(words[1:])
			if !ok {
				return words
			}
			words = run.Command
		case strings.HasPrefix(program, "LEADERRUN_") && isAssignment(program), program == "-c": // of flock
			words = words[1:]
		case starts && options.is("guard"):
			words = options.skip(words[1:])
		default:
			return words
		}
	}
	return nil
}

// Locks are the locks that a script takes, each by the last part of its name: two paths may lead to one file. program is the first one
// that keeps two of them apart, with the word that makes it so; "": there is none.
func (s *Script) Locks() (program string, names []string) {
	for _, words := range s.Commands {
		name := path.Base(words[0].Text)
		options, starts := starterOf(words)
		if !starts || !options.is("lock") {
			continue
		}
		program = cmp.Or(program, strings.Join(append([]string{name}, options["verb"]...), " "))
		for i, t := range words {
			if _, value, found := strings.Cut(t.Text, "="); found && strings.HasPrefix(t.Text, "-") && name == "lockrun" || i > 0 && words[i-1].Text == "-L" {
				names = append(names, path.Base(value))
			}
		}
		if rest := options.skip(words[1:]); options.is("operand") && len(rest) < len(words)-1 {
			names = append(names, path.Base(words[len(words)-len(rest)-1].Text))
		}
	}
	for _, text := range s.Texts {
		for i, t := range text.Tokens {
			if at := slices.Index(names, strings.TrimRight(t.Text, "<>")); at >= 0 && t.Operator && i+1 < len(text.Tokens) { // flock 9 … 9>FILE
				names[at] = path.Base(text.Tokens[i+1].Text)
			}
		}
	}
	slices.Sort(names)
	return program, slices.Compact(names)
}
