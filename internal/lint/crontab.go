package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/crontab"
)

// settings are the variables of a crontab that count for the lines below them.
type settings map[string]string

func (l *linter) crontab(s *Source) {
	if wrong := crontab.Refused(s.Text, s.Format); wrong != nil {
		l.find(s, wrong.Line, Syntax, "", wrong.Why, "cron ignores the whole file until it is mended")
	}
	if s.Refused != "" {
		l.find(s, 0, Syntax, "", "cron ignores the whole file: "+s.Refused, "a crontab belongs to root, or to its user in the spool, has one name, and nobody else may write it: mode 644 or 600")
	}
	set := settings{"PATH": cronPath}
	for _, line := range crontab.Parse(s.Text, s.Format) {
		switch line.Kind {
		case crontab.Setting:
			set[line.Name] = line.Value
			server := line.Value[strings.LastIndexByte(line.Value, '@')+1:] // a password may have any characters
			if strings.HasPrefix(line.Name, "LEADERRUN_") && (strings.Contains(server, "$") || strings.HasPrefix(server, "~/")) {
				l.find(s, line.Number, Call, "", line.Name+": cron replaces no $ and no ~ in a variable", "write the value itself")
			}
		case crontab.Job:
			l.line(s, &line, set)
		}
	}
}

// call is a run in a line.
type call struct {
	*Source
	crontab.Run
	line   *crontab.Line
	set    settings
	script *crontab.Script // in which it stands: the line's, or a text for another shell
	inner  bool            // script is a text for another shell
}

// value is what a run gets for an option: on the command line, in a variable before the command or above the line. "": nothing.
func (c *call) value(option string) string {
	return cmp.Or(c.Option(option), c.variable("LEADERRUN_"+strings.ToUpper(strings.ReplaceAll(option, "-", "_"))))
}

func (c *call) variable(name string) string {
	for _, t := range c.script.Tokens[:c.From] {
		if text, ok := strings.CutPrefix(t.Text, name+"="); ok && !t.Operator {
			return text
		}
	}
	return c.set[name]
}

func (l *linter) line(s *Source, line *crontab.Line, set settings) {
	text, _ := line.Script(s.Format)
	script := crontab.Read("", text)
	if s.Format != crontab.Supercronic && crontab.IsCutShort(line.Command) {
		l.find(s, line.Number, Percent, "", "cron ends the command at the %", `a plain % is \%`)
	}
	l.user(s, line, set)
	for i, inner := range script.Texts {
		if run, ok := inner.Run(); ok {
			l.run(&call{s, run, line, set, inner, i > 0})
			if i > 0 {
				run.From = slices.IndexFunc(script.Tokens, func(t crontab.Token) bool { return t.Quoted && strings.Contains(t.Text, "leaderrun") })
				run.To = run.From + 1
				l.outside(&call{Source: s, Run: run, line: line, script: script})
			}
			return
		}
	}
	if word, ok := script.OtherCall(); ok && word.Literal {
		if why, remedy := l.Refuses(nil, []string{word.Text}, nil); why != "" {
			l.find(s, line.Number, Call, "", why, remedy)
		}
	}
	l.takes(s, script)
	l.bare = append(l.bare, job{s, line.Number, "", script.Essence(), l.plan([]string{line.Fields}, "").fingerprint, nil})
}

// user looks at the word before a command that is a user in one kind of crontab only.
func (l *linter) user(s *Source, line *crontab.Line, set settings) {
	first, _ := crontab.CutWord(line.Command)
	switch {
	case s.Format == crontab.System && (line.User == "leaderrun" && first == "run" || strings.ContainsAny(line.User, "/=$'\"")):
		l.find(s, line.Number, Syntax, "", "a command stands in the place of the user, and cron ignores the whole file", "write the user before the command")
	case s.Format == crontab.System && s.Here && l.This != nil && !l.This.IsUser(line.User):
		l.find(s, line.Number, Syntax, "", fmt.Sprintf("%q is no user in /etc/passwd, and cron ignores the whole file", line.User), "write a user of this host before the command")
	case s.Format == crontab.User && l.This != nil:
		if why, sure := l.This.UserColumn(line.Command, set["PATH"]); sure {
			l.find(s, line.Number, User, "", why+", and cron takes it for the command", "remove it; or is the file a system crontab? --from system")
		}
	}
}

func (l *linter) run(c *call) {
	exprs, ok := l.schedule(c)
	if ok {
		l.call(c)
	}
	l.outside(c)
	l.path(c)
	text := ""
	if n := len(c.Command); n > 0 {
		text = c.script.Text[c.Command[0].Start:c.Command[n-1].End]
		if why, remedy := notProgram(c.Command); len(c.Options["shell"]) > 0 {
			text = c.Command[0].Text
		} else if why != "" {
			l.find(c.Source, c.line.Number, Call, c.Job, why, remedy)
		}
	}
	backend := c.value("backend")
	if backend+c.value("backend-file")+c.value("config") == "" && !l.Named {
		l.once(c.Source, c.line.Number, Backend, c.Job, noBackend, "write LEADERRUN_BACKEND_FILE=/etc/leaderrun/backend above the lines")
	}
	command := crontab.Read("sh", text) // that of --shell
	found := job{c.Source, c.line.Number, c.Job, command.Essence(), l.plan(exprs, c.value("timezone")).fingerprint, placeOf(backend)}
	l.inside(c.Source, c.line.Number, c.Job, command)
	l.nested(c.Source, c.line.Number, c.Job, command, found.place)
	l.jobs = append(l.jobs, found)
}

// placeOf is that of a store; nil: nobody knows it here.
func placeOf(backend string) *all.Place {
	place, err := all.PlaceOf(backend)
	if err != nil || strings.Contains(backend, "$") {
		return nil
	}
	return &place
}

// scriptOf is a command as a script for the shell that it names.
func scriptOf(argv []string) *crontab.Script {
	if len(argv) == 3 && argv[1] == "-c" {
		return crontab.Read(argv[0], argv[2])
	}
	return crontab.Read("", strings.Join(argv, " "))
}
