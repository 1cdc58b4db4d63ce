package lint

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/duration"
)

// call asks leaderrun itself whether it would take the words of a run and the variables. Not words that a shell has yet to fill in.
func (l *linter) call(c *call) {
	own := c.To - len(c.Command)
	options, args := []string{"run"}, []string{"job", "command"}
	isCut := len(c.Command) == 0 && c.To < len(c.script.Tokens) && strings.ContainsAny(c.script.Tokens[c.To].Text, "<>") // the rest stands behind it
	if !isCut && !slices.ContainsFunc(c.script.Tokens[c.From+1:own], func(t crontab.Token) bool { return !t.Literal }) {
		words := make([]string, 0, c.To-c.From)
		for _, t := range c.script.Tokens[c.From+1 : c.To] {
			words = append(words, t.Text)
		}
		options, args = words[:c.Before], words[c.Before:]
	}
	why, remedy := l.Refuses(options, args, c.set)
	if strings.HasPrefix(why, "LEADERRUN_") {
		l.once(c.Source, c.line.Number, Call, c.Job, why, remedy)
	} else if why != "" {
		l.find(c.Source, c.line.Number, Call, c.Job, why, remedy)
	}
}

// notProgram says why the first word of a command can be no program.
func notProgram(command []crontab.Token) (why, remedy string) {
	const toShell = "give the line to a shell: --shell '…'"
	first := command[0]
	switch {
	case !first.Literal:
	case len(command) == 1 && first.Quoted && strings.ContainsAny(first.Text, " \t|;&"):
		return "the one word " + first.Text + " is taken for the name of a program", toShell
	case crontab.Is(first.Text, "word"):
		return first.Text + " is a word of the shell, and no program", toShell
	case strings.Contains(first.Text, "=") && !strings.Contains(first.Text, "/"):
		return "a variable stands in the place of the program", toShell
	case first.Quoted && strings.HasPrefix(first.Text, "~/"):
		return "no shell replaces the ~ in quotes", "write the whole path"
	}
	return "", ""
}

// schedule compares the ticks of a run with the fields of its line, and returns the expressions. ok is false if leaderrun would refuse
// --schedule.
func (l *linter) schedule(c *call) (exprs []string, ok bool) {
	if c.line.Fields == "@reboot" || c.Option("tick") != "" || c.Option("once") != "" {
		return nil, true
	}
	fault := func(why, remedy string) { l.find(c.Source, c.line.Number, Schedule, c.Job, why, remedy) }
	exprs, every, names := c.Options["schedule"], c.Option("every"), []string{"--schedule", "--every"}
	if len(exprs) == 0 && every == "" {
		exprs, every = strings.FieldsFunc(c.value("schedule"), func(r rune) bool { return r == '\n' }), c.value("every")
		names = []string{"LEADERRUN_SCHEDULE", "LEADERRUN_EVERY"}
	}
	says := names[0]
	if err := l.plan(exprs, "").err; len(exprs) > 0 && err != nil {
		if says == "--schedule" { // else call says it
			fault("--schedule is refused: "+err.Error(), "repeat the fields of the line, in quotes")
		}
		return nil, says != "--schedule"
	}
	zone := cmp.Or(c.value("timezone"), c.variable("TZ"))
	switch cronTZ := c.set["CRON_TZ"]; {
	case len(exprs) == 0 || strings.HasSuffix(c.line.Fields, " * * * *"): // it is the same in all zones
	case cronTZ != "" && zone != cronTZ:
		fault(fmt.Sprintf("cronie starts the line in the zone %s of CRON_TZ, of which leaderrun does not know", cronTZ), "add --timezone "+cronTZ)
	case cronTZ == "" && zone != "" && c.value("timezone") == "":
		fault(fmt.Sprintf("leaderrun takes %s of TZ for the zone of the schedule, and cron starts the line in the host's", zone), "add --timezone with the zone of the hosts")
	}
	if d, err := duration.Positive(every); err == nil {
		says, exprs = names[1], append(slices.Clone(exprs), "@every "+d.String())
	}
	if len(exprs) > 0 && !l.isOnePerTick(c.line.Fields, exprs) {
		fault(fmt.Sprintf("%s says %q, and cron starts the line at %q", says, strings.Join(exprs, `" and "`), c.line.Fields), "write the same in both places")
	}
	return exprs, true
}

// isOnePerTick says whether cron starts a line with these fields once for each tick. With @every that may be some time after the tick.
func (l *linter) isOnePerTick(fields string, exprs []string) bool {
	starts, ticks := l.plan([]string{fields}, ""), l.plan(exprs, "")
	switch {
	case starts.err != nil, ticks.err != nil, starts.fingerprint == ticks.fingerprint:
		return true // what is wrong is cron's, or import's, to tell
	case !strings.HasPrefix(exprs[len(exprs)-1], "@every"):
		return false
	}
	start, _ := starts.Next(time.Unix(0, 0).AddDate(50, 0, 0)) //nolint:mnd // anywhen
	tick, _ := ticks.Last(start)
	const enough = 400
	for range enough {
		start, _ = starts.Next(start)
		next, _ := ticks.Next(tick)
		if tick, _ = ticks.Last(start); !tick.Equal(next) {
			return false
		}
	}
	return true
}

// outside finds commands that stand beside the run.
func (l *linter) outside(c *call) {
	begins, run, tokens := true, &c.Run, c.script.Tokens
	for i, t := range tokens {
		switch {
		case i >= run.From && i < run.To:
			begins = false
		case t.Operator && strings.HasPrefix(t.Text, "#"):
			return
		case t.Operator:
			begins = !strings.ContainsAny(t.Text, "<>")
		case begins && strings.Contains(t.Text, "=") && i < run.From: // a variable of the run
		case begins && i < run.From && !slices.ContainsFunc(tokens[i:run.From], func(t crontab.Token) bool { return t.Operator }): // what starts the run
			begins = false
		case begins:
			begins = false
			if crontab.Is(t.Text, "beside") {
				continue
			}
			where, operator := "before", operatorAfter(tokens[i:])
			if i > run.To {
				where, operator = "after", tokens[i-1].Text
			}
			l.find(c.Source, c.line.Number, Outside, c.Job,
				fmt.Sprintf("%s stands %s the run (%s): every host runs it, also where the job did not run", t.Text, where, operator),
				"what belongs to the job goes inside: -- sh -c '… && …'")
			return
		}
	}
}

// cronPath is where cron looks for programs, if a file does not say.
const cronPath = "/usr/bin:/bin"

// otherPath are words before a call with which it may be looked for elsewhere. They are read only.
var otherPath = strings.Fields(". doas env export source su sudo")

// path looks for leaderrun where cron does, once for each PATH.
func (l *linter) path(c *call) {
	name, path := c.script.Tokens[c.From].Text, c.set["PATH"]
	if !c.Here || c.Format == crontab.Supercronic || c.inner || strings.Contains(name, "/") || l.This.IsProgram(name, path) {
		return
	}
	for _, t := range c.script.Tokens[:c.From] {
		if strings.HasPrefix(t.Text, "PATH=") || slices.Contains(otherPath, filepath.Base(t.Text)) {
			return
		}
	}
	l.once(c.Source, c.line.Number, Path, c.Job, "cron finds no leaderrun in its PATH, "+path, "write the whole path of leaderrun, or PATH=… above the lines")
}

// operatorAfter is what ends the command that some tokens begin with.
func operatorAfter(tokens []crontab.Token) string {
	at := slices.IndexFunc(tokens, func(t crontab.Token) bool { return t.Operator && !strings.ContainsAny(t.Text, "<>") })
	return tokens[max(at, 0)].Text
}
