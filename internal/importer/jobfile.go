package importer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/value"
)

// JobFile writes jobs as a file for `leaderrun cron`. What such a file cannot say, or its reader would refuse, is left, and a comment in
// it says so. Only jobs of the user go in, for the daemon runs all as one; "": any. The notes are about variables.
func JobFile(jobs []*Job, user string) (text string, notes []Note) {
	const head = "# leaderrun import: `leaderrun cron --check FILE` shows the next ticks\njobs:\n"
	var b strings.Builder
	written, told, seen := false, map[Note]bool{}, map[string]int{}
	for _, j := range jobs {
		for _, v := range j.Env[min(seen[j.Path], len(j.Env)):] { // those of a file grow from line to line
			why, hint := v.notForJobs()
			n := Note{Path: j.Path, Why: oneLine(v.Name) + " is not in the job file: " + why, Hint: hint}
			if why != "" && !told[n] {
				told[n] = true
				notes = append(notes, n)
			}
		}
		seen[j.Path] = max(seen[j.Path], len(j.Env))
		if j.Word == Left {
			continue
		}
		entry, why, hint := j.entry(user)
		if why == "" {
			_, err := jobfile.Parse("jobs.yaml", []byte(head+entry), jobfile.NewDefaults())
			if wrong, ok := errors.AsType[*jobfile.Error](err); ok {
				why, hint = wrong.Problems[0].Why, wrong.Problems[0].Hint
			}
		}
		if why != "" {
			j.leave(why, hint)
			fmt.Fprintf(&b, "  # %s is not here: %s\n", oneLine(j.Name), why)
			continue
		}
		b.WriteString(entry)
		written = true
	}
	if !written {
		return "", notes
	}
	return head + b.String(), notes
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
}

// noKeys are variables of a crontab that say something to cron.
var noKeys = []string{"SHELL", "HOME", "LOGNAME", "USER", "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "CRON_TZ", "RANDOM_DELAY"}

// isForDaemon says whether a variable is for leaderrun, which no job of a file may set.
func isForDaemon(name string) bool {
	return strings.HasPrefix(name, "LEADERRUN_") || name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_")
}

// notForJobs says why a variable is left out of a job file though it does something in a crontab.
func (v *Variable) notForJobs() (why, hint string) {
	switch {
	case isForDaemon(v.Name):
		return "it is for leaderrun itself", "set it where `leaderrun cron` starts"
	case !value.IsVariable(v.Name):
		return "no shell has a variable of this name", "call it otherwise where it is needed"
	case strings.HasPrefix(v.Name, "MAIL") && slices.Contains(noKeys, v.Name) && v.Value != "":
		return "`leaderrun cron` sends no mail", "what jobs print goes where the daemon prints"
	case v.Name == "RANDOM_DELAY" && v.Value != "" && v.Value != "0":
		return "there it is called jitter", "jitter: " + oneLine(v.Value) + "m does the same where ticks are further apart"
	}
	return "", ""
}

// isText says whether the job is UTF-8, as YAML is.
func (j *Job) isText() bool {
	return utf8.ValidString(j.raw+j.Dir) && !slices.ContainsFunc(j.Env, func(v Variable) bool { return !utf8.ValidString(v.Name + v.Value) })
}

// entry is the job in the file.
func (j *Job) entry(user string) (text, why, hint string) {
	switch {
	case !j.isText():
		return "", "it has bytes that are not UTF-8, which a job file cannot have", "leave it in a crontab, which `leaderrun cron` reads as well"
	case len(j.stdin) > len("%"):
		return "", "what it reads stands behind a %", "leave it in a crontab, which `leaderrun cron` reads as well"
	case user != "" && j.User != "" && j.User != user:
		return "", "it runs as " + j.User, "`leaderrun cron` runs all jobs of a file as its own user; --user " + quote(j.User) + " writes those of this one"
	case slices.ContainsFunc(j.options, func(o option) bool { return o.name == "--wait" && o.key == "" }):
		return "", "a lock that is waited for with a limit has no key", "choose overlap: wait or forbid"
	}
	script, _ := crontab.SplitPercent(j.raw)
	if !j.percent {
		script = j.raw
	}
	text = "  " + scalar(j.Name) + ":\n"
	set := func(key, yaml string) { text += "    " + key + ": " + yaml + "\n" }
	if len(j.Exprs) == 1 {
		set("schedule", scalar(j.Exprs[0]))
	} else {
		set("schedule", list(j.Exprs))
	}
	if j.Timezone != "" {
		set("timezone", scalar(j.Timezone))
	}
	switch hasPercent := j.percent && strings.Contains(j.raw, `\%`); { // what its \ is to quotes is the shell's affair
	case j.plain != nil && !hasPercent:
		set("command", list(j.plain))
	case j.plain == nil && j.Shell != "":
		set("command", list([]string{j.Shell, "-c", script}))
	default:
		set("shell", scalar(script))
	}
	for _, o := range j.options {
		if o.key != "" {
			set(o.key, scalar(o.keyValue))
		}
	}
	dir := j.Dir
	var env []string
	seen := map[string]bool{}
	for _, v := range slices.Backward(j.Env) {
		switch again := seen[v.Name]; {
		case again:
			continue
		case v.Name == "HOME":
			dir = v.Value
		case !slices.Contains(noKeys, v.Name) && !isForDaemon(v.Name) && value.IsVariable(v.Name):
			env = append(env, scalar(v.Name)+": "+scalar(v.Value))
		}
		seen[v.Name] = true
	}
	if strings.HasPrefix(dir, "/") {
		set("dir", scalar(dir))
	}
	slices.Reverse(env)
	if len(env) > 0 {
		set("env", "{"+strings.Join(env, ", ")+"}")
	}
	return text, "", ""
}

// scalar writes a text so that YAML reads it back as that, also within brackets.
func scalar(text string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./"
	letter := text != "" && (text[0]|0x20 >= 'a' && text[0]|0x20 <= 'z' || text[0] == '/')
	if letter && strings.Trim(text, plain) == "" && !slices.Contains([]string{"true", "false", "yes", "no", "null", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text) // whose escapes are all YAML's, too
}

// list writes texts within brackets.
func list(texts []string) string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		all = append(all, scalar(text))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
