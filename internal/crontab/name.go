package crontab

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	longestName = 60    // bytes, of a derived one
	nameless    = "job" // what a command is called that has no name in it
)

// Names gives jobs their names, each once. The zero value has given none.
type Names struct {
	tried map[string]int // of each name that is taken: the last number that was tried behind it
}

// Take notes a name that a job has already. It says whether no other had it.
func (n *Names) Take(name string) (first bool) {
	if n.tried == nil {
		n.tried = map[string]int{}
	}
	first = n.tried[name] == 0
	n.tried[name] = max(n.tried[name], 1)
	return first
}

// Derive returns a name for a command, what Name makes of it, and takes it. Where that is taken it has a number behind it:
// -2, -3 and so on, in the order of the calls.
func (n *Names) Derive(script string) string {
	base := Name(script)
	for name := base; ; name = base + "-" + strconv.Itoa(n.tried[base]) {
		if n.Take(name) {
			return name
		}
		n.tried[base]++
	}
}

// Name derives the name of a job from its command, as the shell gets it. The same command always has the same name, in every
// version of this program. It is that of the program, without directory and without the ending of a script, and the word
// behind it where that is a plain one in small letters, as in certbot-renew. What only prepares the command or starts it is
// passed over: cd, test, variables, flock, nice, sudo, sh -c, python and so on.
//
// The name is seen by whoever sees the store, metrics and logs. So words that could hold a secret are no part of it: options and
// what follows them, variables, and words with digits, capitals, or one of : = @ / % in them.
func Name(script string) string {
	return namer(join).name(script, 0)
}

// LongName is the name that import gives to the job of a command, by the rules of Name, and with up to three words behind the program:
// artisan-schedule-run of `php artisan schedule:run`. It depends on nothing but the command, too.
func LongName(script string) string {
	return namer(joinAll).name(script, 0)
}

// namer makes a name of a program and the words behind it.
type namer func(program string, words []Token) string

const deepest = 4 // shells in shells

func (join namer) name(script string, depth int) string {
	s := split("", script)
	for _, anything := range []bool{false, true} {
		for _, words := range s.simple {
			if found := join.nameOf(words, depth, anything); found != "" {
				return found
			}
		}
	}
	return nameless
}

// simple returns the commands between the operators, without the files of redirections.
func simple(tokens []Token) [][]Token {
	var all [][]Token
	var now []Token
	skip := false
	for _, t := range tokens {
		switch {
		case t.Operator && strings.ContainsAny(t.Text, "<>"):
			last := t.Text[len(t.Text)-1]
			skip = last == '<' || last == '>' || last == '|' || last == '&'
		case t.Operator:
			all, now, skip = append(all, now), nil, false
		case skip:
			skip = false
		default:
			now = append(now, t)
		}
	}
	return append(all, now)
}

// nameOf is the name for one simple command; "": it only prepares another, which is no reason where anything counts.
func (join namer) nameOf(words []Token, depth int, anything bool) string {
	for len(words) > 0 {
		word := words[0].Text
		program := path.Base(word)
		switch {
		case word == "-c": // of flock
			return join.ofShell(words, depth)
		case isAssignment(word), strings.HasPrefix(word, "-"):
			words = words[1:]
		case words[0].Quoted && strings.ContainsAny(word, blanks) && depth < deepest: // a line for a shell
			return join.name(word, depth+1)
		case !words[0].Literal && strings.ContainsAny(program, "$`*?[]{}"):
			return "" // known only when it runs
		case Is(program, "prepares"):
			if anything {
				return join(program, nil)
			}
			return ""
		case Is(program, "keyword"):
			words = words[1:]
		case Is(program, "shell"):
			return join.ofShell(words[1:], depth)
		case program == "su":
			at := slices.IndexFunc(words, func(t Token) bool { return t.Text == "-c" })
			if at < 0 {
				return program
			}
			return join.ofShell(words[at:], depth)
		case program == "leaderrun":
			return ofRun(words[1:])
		default:
			options, starts := starterOf(words)
			if !starts {
				return join(program, words[1:])
			}
			rest := options.skip(words[1:])
			switch {
			case !anything && slices.ContainsFunc(words[1:len(words)-len(rest)], func(t Token) bool { return slices.Contains(options["inline"], t.Text) }):
				return "" // a program in the line, such as one that waits
			case anything && (len(rest) == 0 || options.is("inline")):
				return join(program, nil)
			}
			words = rest
		}
	}
	return ""
}

func isAssignment(word string) bool {
	name, _, found := strings.Cut(word, "=")
	return found && strings.Trim(name, "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// endings of scripts. It is read only.
var endings = []string{".sh", ".bash", ".py", ".pl", ".php", ".rb", ".js", ".ts", ".jar", ".exe", ".phar"}

// ofShell is the name of what a shell is to run: the text behind -c, or a script.
func (join namer) ofShell(words []Token, depth int) string {
	rest := programs()["sh"].skip(words)
	at := slices.IndexFunc(words[:len(words)-len(rest)], func(t Token) bool {
		return strings.HasPrefix(t.Text, "-") && !strings.HasPrefix(t.Text, "--") && strings.HasSuffix(t.Text, "c")
	})
	switch {
	case at >= 0 && (at+1 == len(words) || depth >= deepest):
		return nameless
	case at >= 0:
		return join.name(words[at+1].Text, depth+1)
	case len(rest) > 0:
		return join(path.Base(rest[0].Text), rest[1:])
	}
	return ""
}

// ofRun is the name that `leaderrun run` is given.
func ofRun(words []Token) string {
	if run, ok := readRun(words); ok && run.Job != "" {
		return run.Job
	}
	return nameless
}

// What is no part of a name, and the words behind a program that are one.
var (
	notInName = pattern(`[^-_.a-zA-Z0-9]`)
	verb      = pattern(`^[a-z][a-z-]{0,23}$`)
	subverb   = pattern(`^[a-z_][a-z_-]*$`)
)

// join makes a name of a program and the word behind it.
func join(program string, words []Token) string {
	for _, ending := range endings {
		program = strings.TrimSuffix(program, ending)
	}
	base := strings.Trim(notInName().ReplaceAllString(program, ""), "-_.")
	if len(base) > longestName || base == "" || mayBeSecret(program) {
		return nameless
	}
	if len(words) > 0 && words[0].Literal && verb().MatchString(words[0].Text) {
		return base + "-" + words[0].Text
	}
	return base
}

// joinAll takes the words of subcommands, too, such as queue:work.
func joinAll(program string, words []Token) string {
	name := join(program, nil)
	for _, t := range words[:min(len(words), 3)] {
		word := strings.ReplaceAll(t.Text, ":", "-")
		if name == nameless || !t.Literal || !subverb().MatchString(word) || len(name+word) >= longestName {
			break
		}
		name += "-" + word
	}
	return name
}

// mayBeSecret says whether a word looks as if it holds an address or a password.
func mayBeSecret(word string) bool { return strings.ContainsAny(word, ":=@%$") }
