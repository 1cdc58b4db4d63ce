package crontabs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/account"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/importer"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/lint"
	"github.com/leaderrun/leaderrun/internal/value"
)

// Lint is `leaderrun lint`.
func Lint() *cli.Command {
	return &cli.Command{
		Name: "lint", Args: "[FILE…]", Brief: "find what is wrong with crontabs and job files",
		About: `Looks at crontabs that call ` + "`leaderrun run`" + `, at directories of them, and at job files (.yaml). Each FILE is taken
for that of another host, and what they must agree on is compared; a directory is one host's. - is stdin. Without
FILE it looks at /etc/crontab and /etc/cron.d.

It finds what makes a job run twice, or not at all: ticks that are not when cron starts the line; one name for two
commands, and two for one; no backend, or another one than on another host; a job's command without leaderrun;
commands, options, variables and arguments that leaderrun refuses; a % that ends the command; commands beside the
run, which every host runs; what goes on in the background; what looks after the host; locks and runs inside a
run; what makes cron ignore the whole file; and, in the files that this host's cron reads and on stdin, a leaderrun
that is not in cron's PATH. The comment "# leaderrun lint: ok RULE" above a line silences a rule. The exit code is 1
if anything is found.`,
		Examples: []cli.ExampleLine{
			{Does: "this host", Line: "leaderrun lint cron.d"},
			{Does: "what two hosts must agree on", Line: "leaderrun lint host1/crontab host2/crontab"},
			{Does: "for a program", Line: "leaderrun lint --json cron.d"},
		},
		Options: append([]cli.Option{
			cli.FromOption(),
			{Name: "json", Help: "one array of objects"},
			{Name: "format", Value: "text|json", Words: cli.Formats, Check: cli.By(value.OneOf(cli.Formats...)), Bare: true, Help: "json is --json"},
		}, cli.CommonOptions()...),
		Run: launch.EndedAtOnce(runLint),
	}
}

func runLint(c *cli.Call) (cli.ExitStatus, error) {
	asJSON := c.Settings.On("json")
	as := cli.Read(c.Settings, "format", value.OneOf(cli.Formats...), "")
	format, err := givenFormat(c)
	switch {
	case as == "text" && asJSON && c.Settings.Typed("json"):
		return cli.ExitStatus{}, cli.Usage("--format and --json", "they say two things", "give one of them")
	case err != nil:
		return cli.ExitStatus{}, err
	case c.Settings.Err != nil:
		return cli.ExitStatus{}, c.Settings.Err
	}
	paths := c.Args
	if len(paths) == 0 {
		paths = slices.DeleteFunc([]string{"/etc/crontab", "/etc/cron.d"}, func(path string) bool { _, err := os.Stat(path); return err != nil })
	}
	var sources []lint.Source
	for i, path := range paths {
		read, skipped, err := importer.Read([]string{path}, c.Stdin, format)
		if err != nil {
			return cli.ExitStatus{}, importFault(err)
		}
		tell(c, skipped)
		if len(c.Args) == 0 {
			i = 0 // they are one host's
		}
		for _, s := range read {
			source := lint.Source{Path: s.Path, Text: s.Text, Format: s.Format, Host: i, Here: isRead(path)}
			if source.Here {
				source.Refused = cronRefuses(s.Path)
			}
			sources = append(sources, source)
		}
	}
	this := crontab.ThisHost()
	found := lint.Look(sources, lint.Host{Named: namesBackend(c), Refuses: newRefusals().of, This: &this})
	end := cli.ExitStatus{}
	if len(found) > 0 {
		end.Code = cli.CodeBad
	}
	return end, cli.Show(c, as == "json" || as == "" && asJSON, found, lintText)
}

// namesBackend says whether this call or a configuration file names a backend: cron does not see the variables of this shell.
func namesBackend(c *cli.Call) bool {
	g, _ := c.Settings.Find("backend")
	_, inFile := c.Settings.File["backend"]
	return inFile || g.Origin == cli.FromCommandLine && g.Text != ""
}

// refusals says what leaderrun has against words of a crontab. The lines are many, and the options of most are the same: those that were
// taken are kept.
type refusals struct {
	root      *cli.Command
	variables map[string]string
	taken     map[string]*cli.Call
}

func newRefusals() *refusals {
	root := cli.RootCommand()
	root.Kinds = []*cli.Command{cli.CommandNamed("run")}
	return &refusals{root: root, taken: map[string]*cli.Call{}}
}

// of says it of the words behind the name, up to the job and from that on, and of the variables above them, whatever else its host has. Of
// other commands than run only the name is looked at.
func (r *refusals) of(options, args []string, variables map[string]string) (why, remedy string) {
	r.variables = variables
	key := strings.Join(options, "\x00")
	c, err := r.taken[key], error(nil)
	delete(r.taken, key) // what fails is not asked again
	if c == nil {
		c = &cli.Call{Settings: cli.NewSettings(func(name string) (text string, ok bool) {
			text, ok = r.variables[name]
			return text, ok
		})}
		c.Cmd, args, _, err = c.Settings.Walk(r.root, slices.Concat(options, args))
	}
	s := c.Settings
	switch {
	case err != nil:
	case c.Cmd.Name == "run":
		s.Few = len(args) < c.Cmd.Least()
		c.Args = args
		if err = c.Cmd.Refuse(c); err == nil {
			r.taken[key] = c
			err = cmp.Or(wrongBackend(s), partedUnit(s, args[0]))
		}
	case len(args) > 0 && !slices.Contains(cli.CommandNames(), args[0]):
		err = cli.NoCommand(args[0])
	}
	f, ok := errors.AsType[*cli.Fault](err)
	if !ok || f.Code != cli.CodeUsage && !strings.Contains(f.What, cli.Prefix) || s.Asked("help") {
		return "", ""
	}
	return f.Error(), f.Hint
}

// wrongBackend says what is wrong with the URL of a backend by itself: its files and servers may be another host's.
func wrongBackend(s *cli.Settings) error {
	g, named := s.Find("backend")
	if !named {
		return nil
	}
	_, err := cli.ParseBackend(g.Text)
	if err == nil {
		_, err = all.PlaceOf(g.Text)
	}
	if err == nil {
		return nil
	}
	f := cli.BadValue(g, err)
	f.Hint = cmp.Or(cli.HintOf(err), f.Hint)
	return f
}

// partedUnit finds a job that was meant for the unit of a duration, as in --timeout 5 m JOB.
func partedUnit(s *cli.Settings, job string) error {
	if !slices.Contains([]string{"ms", "s", "m", "h", "d", "sec", "min", "hours", "minutes", "seconds", "days"}, job) {
		return nil
	}
	for _, o := range launch.RunOptions() {
		text := s.Word(o).Text
		if _, err := strconv.Atoi(text); err == nil && strings.HasPrefix(o.Value, "D") {
			return cli.Usage(o.Flag()+" "+text, "the next word, "+job+", is taken for JOB", "write "+o.Flag()+" "+text+job)
		}
	}
	return nil
}

// cronRefuses says why this host's cron does not read a file, whatever is in it: cron(8) of Debian logs INSECURE MODE, WRONG FILE OWNER, BAD
// LINK COUNT and ORPHAN. "": it does, or it is no file.
func cronRefuses(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	owner, isKnown := account.Account{Name: "root"}, true
	if strings.HasPrefix(path, "/var/spool/cron/") {
		owner, err = account.Lookup(filepath.Base(path))
		isKnown = err == nil
	}
	switch {
	case !ok:
		return ""
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("others can write it: mode %o", info.Mode().Perm())
	case st.Nlink > 1:
		return "it has another name (a hard link)"
	case !isKnown:
		return "no user in /etc/passwd is called like it"
	case st.Uid != owner.UID && st.Uid != 0:
		return "it does not belong to " + owner.Name
	}
	return ""
}

// isRead says whether this host's cron reads a file, or may: what stdin has is mostly of `crontab -l`.
func isRead(path string) bool {
	abs, err := filepath.Abs(path)
	return path == "-" || err == nil && (abs == "/etc/crontab" || strings.HasPrefix(abs+"/", "/etc/cron.d/") || strings.HasPrefix(abs+"/", "/var/spool/cron/"))
}

func lintText(found []lint.Finding) string {
	var b strings.Builder
	for _, f := range found {
		b.WriteString(cli.FindingText(f) + "\n")
		cli.WriteHint(&b, f.Remedy)
	}
	return b.String()
}
