package crontab

import (
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed programs.txt
var programsText string

// program is what programs.txt says of one: words, some of them with values.
type program map[string][]string

func (p program) is(word string) bool {
	_, ok := p[word]
	return ok
}

var programs = sync.OnceValue(func() map[string]program {
	all := map[string]program{}
	for line := range strings.Lines(programsText) {
		names, row, _ := strings.Cut(line, " | ")
		if strings.HasPrefix(line, "#") || row == "" {
			continue
		}
		for name := range strings.FieldsSeq(names) {
			if all[name] == nil {
				all[name] = program{}
			}
			for word := range strings.FieldsSeq(row) {
				key, values, _ := strings.Cut(word, "=")
				all[name][key] = strings.FieldsFunc(values, func(r rune) bool { return r == ',' })
			}
		}
	}
	return all
})

// Is says whether programs.txt has a word for a program.
func Is(program, word string) bool { return programs()[program].is(word) }

// Operands are the words of a simple command whose program names files to work on, but for options and their values.
func Operands(words []Token) (all []string) {
	name, words := path.Base(words[0].Text), words[1:]
	if !Is(name, "operands") {
		return nil
	}
	if name == "tar" && len(words) > 0 && words[0].Text != "" && words[0].Text[0] != '-' { // as in tar czf FILE
		words = slices.Clone(words)
		words[0].Text = "-" + words[0].Text
	}
	for len(words) > 0 {
		_, n := ReadOptions(name, words)
		if name == "find" && n > 0 && len(all) > 0 { // the expression
			return all
		}
		if words = words[n:]; len(words) > 0 {
			all, words = append(all, words[0].Text), words[1:]
		}
	}
	return all
}

// starterOf is the program of some words, if they start another.
func starterOf(words []Token) (p program, starts bool) {
	p = programs()[strings.TrimRight(path.Base(words[0].Text), "0123456789.")] // also python3.11
	return p, p.is("starts") && p.isIn(words)
}

// isIn says whether the word is there that makes a program start another.
func (p program) isIn(words []Token) bool {
	return !p.is("verb") || slices.ContainsFunc(words, func(t Token) bool { return t.Text == p["verb"][0] })
}

// skip returns the words from the program on that is started.
func (p program) skip(words []Token) []Token {
	for len(words) > 0 {
		word := words[0].Text
		option := strings.TrimLeft(word, "-+")
		switch {
		case word == "--":
			return p.behindOperand(words[1:])
		case len(word) > 1 && len(option) < len(word) && (slices.Contains(p["options"], option) || takesLast(option, p["options"])):
			words = words[min(2, len(words)):]
		case len(word) > 1 && len(option) < len(word), isAssignment(word), word == "exec", slices.Contains(p["verb"], word):
			words = words[1:]
		default:
			return p.behindOperand(words)
		}
	}
	return nil
}

func (p program) behindOperand(words []Token) []Token {
	if p.is("operand") && len(words) > 0 {
		return words[1:]
	}
	return words
}

// takesLast says whether letters that stand together, as in -nE, end with the one that takes a value.
func takesLast(letters string, values []string) bool {
	at := strings.IndexFunc(letters, func(r rune) bool {
		return r < 'A' || r > 'z' || r > 'Z' && r < 'a' || slices.Contains(values, string(r))
	})
	return at >= 0 && at == len(letters)-1 && slices.Contains(values, letters[at:]) // else the rest is the value
}
