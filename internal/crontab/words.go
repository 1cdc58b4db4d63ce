package crontab

import (
	"slices"
	"strings"
)

// Token is a word of a command line, or an operator of the shell.
type Token struct {
	Text       string // of a word without its quotes, as far as it is Literal
	Start, End int    // in the script
	Operator   bool   // such as && | ; > 2>&1 ( # or a newline; # and what follows it are one
	Literal    bool   // a word in which the shell replaces nothing
	Quoted     bool   // a word that has a quote or a \
}

// Tokens takes a line for a POSIX shell apart. It knows quotes, substitutions and operators, not what they mean together. ok is false
// where a quote or a substitution does not end, or more than maxNested substitutions stand one in another.
func Tokens(script string) (tokens []Token, ok bool) {
	s := scanner{text: script}
	tokens = make([]Token, 0, 2+len(script)/8) // most have no more
	for s.blanks(); s.at < len(script); s.blanks() {
		start := s.at
		if n := operator(script[start:]); n > 0 {
			s.at += n
			tokens = append(tokens, Token{Text: strings.TrimRight(script[start:s.at], "\n"), Start: start, End: s.at, Operator: true})
			continue
		}
		t := Token{Start: start, Literal: true}
		if !s.word(&t) {
			return tokens, false
		}
		t.End = s.at
		tokens = append(tokens, t)
	}
	return tokens, true
}

// operators are those of shells, each before those that it begins with. It is read only.
var operators = strings.Split("&>> <<< <<- && || ;; ;& |& &> >> << >& <& >| <> & | ; ( ) < > \n", " ")

// operator is the length of the one that a text begins with; 0: none.
func operator(text string) int {
	if text[0] == '#' {
		line, _, _ := strings.Cut(text, "\n")
		return len(line)
	}
	rest := strings.TrimLeft(text, digits)
	at := slices.IndexFunc(operators, func(op string) bool { return rest != "" && rest[0] == op[0] && strings.HasPrefix(rest, op) })
	if at < 0 || len(rest) < len(text) && rest[0] != '<' && rest[0] != '>' {
		return 0 // a number alone is a word
	}
	op := operators[at]
	if rest = rest[len(op):]; op == ">&" || op == "<&" { // what follows is a descriptor or -, or the name of a file
		rest = strings.TrimLeft(rest, digits+"-")
	}
	return len(text) - len(rest)
}

const (
	digits    = "0123456789"
	endOfWord = " \t\n&|;()<>"
	special   = "\\'\"$`*?[]{}!~" // within one
)

type scanner struct {
	text  string
	at    int
	depth int // of nested
}

// maxNested is how deep substitutions may be: a hostile line is not to exhaust the stack.
const maxNested = 100

func (s *scanner) blanks() {
	for more := true; more; {
		var rest string
		rest, more = strings.CutPrefix(strings.TrimLeft(s.text[s.at:], blanks), "\\\n")
		s.at = len(s.text) - len(rest)
	}
}

// word reads one. It is false where something does not end.
func (s *scanner) word(t *Token) bool {
	plain := s.text[s.at:]
	if n := strings.IndexAny(plain, endOfWord+special); n >= 0 {
		plain = plain[:n]
	}
	if s.at += len(plain); s.at == len(s.text) || strings.IndexByte(endOfWord, s.text[s.at]) >= 0 {
		t.Text = plain
		return true
	}
	var b strings.Builder
	b.WriteString(plain)
	for ; s.at < len(s.text) && strings.IndexByte(endOfWord, s.text[s.at]) < 0; s.at++ {
		switch c := s.text[s.at]; c {
		case '\\', '\'', '"':
			if t.Quoted = true; !s.quoted(t, &b) {
				return false
			}
		case '$', '`':
			if !s.substitution(t, &b) {
				return false
			}
		default:
			if strings.IndexByte("*?[]{}!", c) >= 0 || c == '~' && (b.Len() == 0 || strings.HasSuffix(b.String(), "=") || strings.HasSuffix(b.String(), ":")) {
				t.Literal = false
			}
			b.WriteByte(c)
		}
	}
	t.Text = b.String()
	return true
}

// quoted reads what begins with a quote or a \, and stays on its last byte.
func (s *scanner) quoted(t *Token, b *strings.Builder) bool {
	rest := s.text[s.at+1:]
	switch {
	case s.text[s.at] == '"':
		return s.doubleQuoted(t, b)
	case s.text[s.at] == '\'':
		text, _, closed := strings.Cut(rest, "'")
		b.WriteString(text)
		s.at += len(text) + 1
		return closed
	case rest == "":
		b.WriteByte('\\') // at the end it stands for itself
	default:
		s.at++
		b.WriteByte(rest[0])
	}
	return true
}

// doubleQuoted reads to the quote that ends it, and stays on that.
func (s *scanner) doubleQuoted(t *Token, b *strings.Builder) bool {
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case '"':
			return true
		case '\\':
			if s.at+1 < len(s.text) && strings.IndexByte("$`\"\\\n", s.text[s.at+1]) >= 0 {
				s.at++
			}
			b.WriteByte(s.text[s.at])
		case '$', '`':
			if !s.substitution(t, b) {
				return false
			}
		default:
			b.WriteByte(c)
		}
	}
	return false
}

// substitution reads what begins with $ or `, and stays on its last byte.
func (s *scanner) substitution(t *Token, b *strings.Builder) bool {
	start := s.at
	rest := s.text[s.at+1:]
	switch {
	case s.text[s.at] == '`':
		for s.at++; s.at < len(s.text) && s.text[s.at] != '`'; s.at++ {
			if s.text[s.at] == '\\' {
				s.at++
			}
		}
	case strings.HasPrefix(rest, "("), strings.HasPrefix(rest, "{"):
		s.at++
		if !s.nested(rest[0]) {
			return false
		}
	case rest == "" || strings.IndexByte("_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789?@*#$!-'\"", rest[0]) < 0:
		b.WriteByte('$') // alone it stands for itself
		return true
	}
	if s.at >= len(s.text) {
		return false
	}
	t.Literal = false
	b.WriteString(s.text[start : s.at+1])
	return true
}

// nested goes from a bracket to the one that closes it. Quotes within count.
func (s *scanner) nested(opening byte) bool {
	closing := byte(')')
	if opening == '{' {
		closing = '}'
	}
	if s.depth++; s.depth > maxNested {
		return false
	}
	defer func() { s.depth-- }()
	depth := 0
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case '\\', '\'', '"':
			if !s.quoted(&Token{}, &strings.Builder{}) {
				return false
			}
		case opening:
			depth++
		case closing:
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}
