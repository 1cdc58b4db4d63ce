package crontab

import (
	"path"
	"slices"
	"strings"
)

// mostTexts bounds the texts of one line: a hostile one may hold thousands.
const mostTexts = 100

// Script is a text for a shell, taken apart once for all rules. It is read only.
type Script struct {
	Shell, Text string
	Tokens      []Token
	Ended       bool // no quote and no substitution is left open

	// Texts are the script and the texts in it that another shell is to run, as in `su app -c '…'` and `flock F bash -lc '…'`, also those
	// within these. What must not stand in a line must not stand in one of them, either. Where nothing names the shell of a text, it is that
	// of what the text stands in.
	Texts []*Script

	// Commands are the simple commands of all Texts, each from its program on. Where that starts another one, as nice and sudo do, the
	// words from that on are a command of their own behind it.
	Commands [][]Token

	simple [][]Token // what stands between the operators
}

// Read takes a script apart. The shell is the one that reads it.
func Read(shell, script string) *Script {
	s := split(shell, script)
	s.Texts = []*Script{s}
	for i := 0; i < len(s.Texts); i++ {
		outer := s.Texts[i]
		for _, words := range outer.simple {
			s.Commands = append(s.Commands, chain(words)...)
			for _, text := range forShell(words, outer.Shell) {
				if len(s.Texts) < mostTexts && len(text.Text) < len(outer.Text) {
					s.Texts = append(s.Texts, text)
				}
			}
		}
	}
	return s
}

// split is Read without what stands within texts.
func split(shell, script string) *Script {
	s := &Script{Shell: shell, Text: script}
	s.Tokens, s.Ended = Tokens(script)
	s.simple = simple(s.Tokens)
	return s
}

// forShell returns the texts in a simple command that a shell is to run: one of its words names that, or else it is the given one.
func forShell(words []Token, shell string) (texts []*Script) {
	var behind, takesText bool // the name of a program that gives a text to a shell: with -c, or without
	for i, t := range words {
		option := behind && (strings.HasPrefix(words[i-1].Text, "-") && strings.HasSuffix(words[i-1].Text, "c") || words[i-1].Text == "--command")
		glued, isGlued := strings.CutPrefix(strings.TrimPrefix(t.Text, "--command="), "-c")
		switch {
		case option, takesText && t.Quoted:
			texts = append(texts, split(shell, t.Text))
		case behind && t.Quoted && (isGlued || strings.HasPrefix(t.Text, "--command=")):
			texts = append(texts, split(shell, glued))
		}
		p := programs()[path.Base(t.Text)]
		behind = behind || slices.Contains(p["text"], "-c")
		takesText = takesText || slices.Contains(p["text"], "last")
		if p.is("shell") {
			shell = t.Text
		}
	}
	return texts
}

// chain returns the words of a simple command from each of its programs on.
func chain(words []Token) (all [][]Token) {
	for len(words) > 0 && !strings.HasPrefix(words[0].Text, "-") {
		name := path.Base(words[0].Text)
		if isAssignment(words[0].Text) || Is(name, "keyword") {
			words = words[1:]
			continue
		}
		p, starts := starterOf(words)
		if other := programs()[name]; !starts && (other.is("later") || other.is("shell")) {
			p, starts = other, true
		}
		if all = append(all, words); !starts {
			break
		}
		words = p.skip(words[1:])
	}
	return all
}

// Option is one as it was found: its name without dashes, and its value if it has one.
type Option struct{ Name, Value string }

// ReadOptions reads options of a program up to the first word that is none. Letters may stand together. n is how many words that were, with
// a -- at the end.
func ReadOptions(program string, words []Token) (found []Option, n int) {
	valued := programs()[program]["options"]
	for n < len(words) {
		word := words[n].Text
		switch {
		case !words[n].Literal || len(word) < 2 || word[0] != '-':
			return found, n
		case word == "--":
			return found, n + 1
		}
		n++
		next := func() (value string) {
			if n < len(words) {
				value = words[n].Text
				n++
			}
			return value
		}
		if long, ok := strings.CutPrefix(word, "--"); ok {
			name, value, given := strings.Cut(long, "=")
			if !given && slices.Contains(valued, name) {
				value = next()
			}
			found = append(found, Option{name, value})
			continue
		}
		for i := 1; i < len(word); i++ {
			o := Option{Name: word[i : i+1]}
			if slices.Contains(valued, o.Name) {
				if o.Value = word[i+1:]; o.Value == "" {
					o.Value = next()
				}
				i = len(word)
			}
			found = append(found, o)
		}
	}
	return found, n
}

// LeavesBehind says which part of a script goes on when the script is over: it would not outlive a run, or would go on
// without its lease; "": none does.
func (s *Script) LeavesBehind() string {
	for _, text := range s.Texts {
		if part := text.inBackground(); part != "" {
			return part
		}
	}
	for _, words := range s.Commands {
		name := path.Base(words[0].Text)
		p := programs()[name]
		if !p.is("detaches") || strings.Contains(words[0].Text, "/") && !strings.HasPrefix(words[0].Text, "/usr/") && !strings.HasPrefix(words[0].Text, "/bin/") {
			continue // such as /opt/app/batch
		}
		if len(p["detaches"]) == 0 {
			return name
		}
		rest := words[1:]
		for more := true; more; {
			options, n := ReadOptions(name, rest)
			for _, o := range options {
				if slices.Contains(p["detaches"], o.Name) && o.Value != "false" {
					return name + " -" + o.Name[:1]
				}
			}
			rest = rest[n:]
			if more = len(rest) > 0 && slices.Contains(p["verbs"], rest[0].Text); more {
				rest = rest[1:]
			}
		}
		if name == "ssh" && len(rest) > 1 && Read(s.Shell, rest[1].Text).LeavesBehind() != "" {
			return name
		}
	}
	return ""
}

// inBackground is by what a shell puts something into the background for which it does not wait; "": by nothing. A word of another
// command is no wait, and neither is that of a subshell, which has other children.
func (s *Script) inBackground() (part string) {
	for i, t := range s.Tokens {
		switch {
		case t.Operator && t.Text == "&":
			part = t.Text
		case t.Operator && strings.HasPrefix(t.Text, "&>") && !slices.Contains([]string{"bash", "zsh"}, path.Base(s.Shell)):
			part = t.Text + " (to sh an & and a >)"
		case t.Text == "wait" && part != "" && s.Tokens[i-1].Operator && slices.Contains([]string{"&", "&&", "||", ";", "\n"}, s.Tokens[i-1].Text):
			part = ""
		}
	}
	return part
}
