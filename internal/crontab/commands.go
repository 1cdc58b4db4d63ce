package crontab

import (
	"path"
	"slices"
	"strings"
)

// mostTexts bounds the texts of one line: a hostile one may hold thousands.
const mostTexts = 100

// Text is a script and the shell that is to run it.
type Text struct{ Shell, Script string }

// Texts returns a script and the texts in it that another shell is to run, as in `su app -c '…'` and `flock F bash -lc '…'`, also those
// within these. What must not stand in a line must not stand in one of them, either. shell is that of the script; where a text names
// none, it is that of what the text stands in.
func Texts(shell, script string) []Text {
	all := []Text{{shell, script}}
	for i := 0; i < len(all); i++ {
		tokens, _ := Tokens(all[i].Script)
		for _, words := range simple(tokens) {
			shell := all[i].Shell
			for _, t := range words {
				if slices.Contains(shells, path.Base(t.Text)) {
					shell = t.Text
				}
			}
			for _, text := range forShell(words) {
				if len(all) < mostTexts && len(text) < len(all[i].Script) {
					all = append(all, Text{shell, text})
				}
			}
		}
	}
	return all
}

// callShell are programs, beside shells, that give a text to one: with -c, or as their last words. They are read only.
var (
	withC    = append(strings.Fields("su runuser flock script sg"), shells...)
	withText = strings.Fields("eval consul watch screen tmux")
)

// forShell returns the texts in a simple command that a shell is to run.
func forShell(words []Token) (texts []string) {
	var behind, takesText bool // the name of a program that gives a text to a shell: with -c, or without
	for i, t := range words {
		name := path.Base(t.Text)
		option := behind && i > 0 && (strings.HasPrefix(words[i-1].Text, "-") && strings.HasSuffix(words[i-1].Text, "c") || words[i-1].Text == "--command")
		glued, isGlued := strings.CutPrefix(strings.TrimPrefix(t.Text, "--command="), "-c")
		switch {
		case option, takesText && t.Quoted:
			texts = append(texts, t.Text)
		case behind && t.Quoted && (isGlued || strings.HasPrefix(t.Text, "--command=")):
			texts = append(texts, glued)
		}
		behind = behind || slices.Contains(withC, name)
		takesText = takesText || slices.Contains(withText, name)
	}
	return texts
}

// Commands returns the simple commands of a script and of its Texts, each from its program on. Where that starts another one, as nice
// and sudo do, the words from that on are a command of their own behind it.
func Commands(script string) (all [][]Token) {
	for _, text := range Texts("", script) {
		tokens, _ := Tokens(text.Script)
		for _, words := range simple(tokens) {
			all = append(all, chain(words)...)
		}
	}
	return all
}

// laterStarters start another program, too. The names of the daemon's jobs do not look behind them: a name stays the same in all versions.
// They are read only.
var laterStarters = map[string]starter{
	"busybox": {}, "eatmydata": {}, "unshare": {}, "cgexec": {values: "g"}, "chpst": {values: "u U b e d n l L m o p f c r t"}, "chroot": {before: 1},
	"cpulimit": {values: "l c --limit --cpu"}, "cronitor": {before: 1, verb: "exec"}, "gosu": {before: 1}, "numactl": {values: "m N C"}, "pkexec": {values: "--user"},
	"prlimit": {}, "setpriv": {values: "--reuid --regid --groups"}, "setuidgid": {before: 1}, "su-exec": {before: 1}, "systemd-inhibit": {}, "unbuffer": {},
}

// chain returns the words of a simple command from each of its programs on.
func chain(words []Token) (all [][]Token) {
	for len(words) > 0 && !strings.HasPrefix(words[0].Text, "-") {
		program := path.Base(words[0].Text)
		options, starts := starterOf(words)
		if !starts {
			options, starts = laterStarters[program]
		}
		switch {
		case isAssignment(words[0].Text), slices.Contains(keywords, program):
			words = words[1:]
			continue
		case slices.Contains(shells, program):
			options, starts = starter{values: "o O"}, true
		}
		all = append(all, words)
		if !starts {
			break
		}
		words = options.skip(words[1:])
	}
	return all
}

// Option is one as it was found: its name without dashes, and its value if it has one.
type Option struct{ Name, Value string }

// ReadOptions reads options up to the first word that is none. valued are the letters and names of those with a value. Letters may
// stand together. n is how many words that were, with a -- at the end.
func ReadOptions(words []Token, valued ...string) (found []Option, n int) {
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

// detaching are programs that put a command into the background or hand it to somebody else: by one of these options, with the options
// that take a value and the words between which it may stand. Those without an option always do. They are read only.
var detaching = map[string]struct{ options, valued, verbs string }{
	"at": {}, "batch": {}, "daemonize": {}, "start-stop-daemon": {}, "systemd-run": {}, "dtach": {},
	"docker": dockerDetaches, "podman": dockerDetaches, "docker-compose": dockerDetaches,
	"screen": {options: "d", valued: "S s c p t e h T"},
	"setsid": {options: "f fork"},
	"ssh":    {options: "f", valued: "B b c D E e F I i J L l m O o p Q R S W w"},
	"sudo":   {options: "b background", valued: "u g h p C r t T U D R user group host chdir prompt"},
	"tmux":   {options: "d", valued: "s n c t L S f x y e F", verbs: "new new-session neww new-window"},
}

var dockerDetaches = struct{ options, valued, verbs string }{
	"d detach", "e u w v p m l h H name network net env env-file user workdir volume mount publish label memory cpus entrypoint hostname host context restart platform file project-name f",
	"container compose exec run up",
}

// LeavesBehind says which part of a script for a shell goes on when the script is over: it would not outlive a run, or would go on
// without its lease; "": none does.
func LeavesBehind(shell, script string) string {
	for _, text := range Texts(shell, script) {
		if part := inBackground(text); part != "" {
			return part
		}
	}
	for _, words := range Commands(script) {
		name := path.Base(words[0].Text)
		how, known := detaching[name]
		if !known || strings.Contains(words[0].Text, "/") && !strings.HasPrefix(words[0].Text, "/usr/") && !strings.HasPrefix(words[0].Text, "/bin/") {
			continue // such as /opt/app/batch
		}
		if how.options == "" {
			return name
		}
		for rest := words[1:]; ; {
			options, n := ReadOptions(rest, strings.Fields(how.valued)...)
			for _, o := range options {
				if slices.Contains(strings.Fields(how.options), o.Name) && o.Value != "false" {
					return name + " -" + o.Name[:1]
				}
			}
			if rest = rest[n:]; len(rest) == 0 || !slices.Contains(strings.Fields(how.verbs), rest[0].Text) {
				if name == "ssh" && len(rest) > 1 && LeavesBehind(shell, rest[1].Text) != "" {
					return name
				}
				break
			}
			rest = rest[1:]
		}
	}
	return ""
}

// inBackground is by what a shell puts something into the background for which it does not wait; "": by nothing. A word of another
// command is no wait, and neither is that of a subshell, which has other children.
func inBackground(text Text) (part string) {
	tokens, _ := Tokens(text.Script)
	for i, t := range tokens {
		switch {
		case t.Operator && t.Text == "&":
			part = t.Text
		case t.Operator && strings.HasPrefix(t.Text, "&>") && !slices.Contains([]string{"bash", "zsh"}, path.Base(text.Shell)):
			part = t.Text + " (to sh an & and a >)"
		case t.Text == "wait" && part != "" && tokens[i-1].Operator && slices.Contains([]string{"&", "&&", "||", ";", "\n"}, tokens[i-1].Text):
			part = ""
		}
	}
	return part
}
