package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// topics are help pages that belong to no command.
func topics() map[string]func() string {
	return map[string]func() string{"backends": backendsPage, "exit-codes": exitCodesPage, "environment": environmentPage, "job-file": jobFilePage}
}

func topicNames() string { return strings.Join(slices.Sorted(maps.Keys(topics())), ", ") }

func helpCommand() *Command {
	return &Command{
		Name: "help", Args: "[COMMAND… | TOPIC]", Brief: "show help about a command, or: " + topicNames(),
		Options: []Option{helpOption()}, plain: true, Run: runHelp,
		About: "Shows the page of a command or a topic.",
		Examples: []ExampleLine{
			{Does: "the page of run", Line: "leaderrun help run"},
			{Does: "the exit codes", Line: "leaderrun help exit-codes"},
		},
	}
}

func runHelp(c *Call) (ExitStatus, error) {
	if len(c.Args) == 0 {
		return c.showHelp(RootCommand())
	}
	name := strings.Join(c.Args, " ")
	for _, cmd := range commands() {
		if cmd.Name == name {
			return c.showHelp(cmd)
		}
	}
	if page, ok := topics()[name]; ok {
		return ExitStatus{}, c.Print(page())
	}
	var names []string
	for _, cmd := range commands() {
		names = append(names, cmd.Name)
	}
	names = append(names, slices.Sorted(maps.Keys(topics()))...)
	hint := cmp.Or(DidYouMean(name, names, ""), "`leaderrun help` shows the commands; topics are "+topicNames())
	return ExitStatus{}, Usage(fmt.Sprintf("%q", name), "there is no such command or topic", hint)
}

// showHelp prints the page of a command, on stdout: it was asked for.
func (c *Call) showHelp(cmd *Command) (ExitStatus, error) {
	page := commandPage(cmd)
	if cmd.Name == "" {
		page = rootPage(cmd)
	}
	return ExitStatus{}, c.Print(page)
}

func rootPage(root *Command) string {
	var b strings.Builder
	b.WriteString("leaderrun runs a command on at most one of many hosts at a time.\n\n")
	b.WriteString("Usage: leaderrun COMMAND [options] …\n\nCommands:\n")
	for _, cmd := range topCommands() {
		fmt.Fprintf(&b, "  %-12s %s\n", cmd.Name, cmd.Brief)
	}
	run := CommandNamed("run")
	b.WriteString("\nExamples:\n")
	writeExamples(&b, run.Examples[:3])
	b.WriteString("\n" + commonHeading() + ":\n")
	writeOptions(&b, root.Options)
	b.WriteString("\n" + optionsText())
	b.WriteString("\n`leaderrun help run` shows all that a run can do, and the exit codes.\n")
	return b.String()
}

func commandPage(cmd *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "leaderrun %s: %s\n\n", cmd.Name, cmd.Brief)
	fmt.Fprintf(&b, "Usage: %s\n\n%s\n", cmd.UsageLine(), cmd.About)
	if len(cmd.Kinds) > 0 {
		b.WriteString("\nKinds:\n")
		for _, kind := range cmd.Kinds {
			fmt.Fprintf(&b, "  %-18s %s\n", kind.Name, kind.Brief)
		}
	}
	if len(cmd.Examples) > 0 {
		b.WriteString("\nExamples:\n")
		writeExamples(&b, cmd.Examples)
	}
	for _, group := range groupsOf(cmd.Options) {
		b.WriteString("\n" + heading(cmd, group) + ":\n")
		writeOptions(&b, inGroup(cmd.Options, group))
	}
	if !cmd.plain {
		b.WriteString("\n" + optionsNote(cmd))
	}
	if cmd.Name == "run" {
		b.WriteString("\nExit code: COMMAND's own, and:\n" + runCodes())
	}
	return b.String()
}

// heading is what stands above a group of options.
func heading(cmd *Command, group string) string {
	if group == "" && cmd.Options[0].Group != "" {
		return commonHeading()
	}
	return cmp.Or(group, "Options")
}

// commonHeading stands above the options that all commands have but those which need no configuration.
func commonHeading() string {
	var plain []string
	for _, cmd := range topCommands() {
		if cmd.plain {
			plain = append(plain, cmd.Name)
		}
	}
	last := len(plain) - 1
	return "Options of every command but " + strings.Join(plain[:last], ", ") + " and " + plain[last]
}

// optionsNote is what a page says of options in general: the rest is a page of its own.
func optionsNote(cmd *Command) string {
	note := "Most options have a variable and a key in a file: `leaderrun help environment`\n"
	if slices.ContainsFunc(cmd.Options, func(o Option) bool { return o.Value == "D" || strings.HasPrefix(o.Value, "D|") }) {
		note = durationsText + note
	}
	return note
}

func writeExamples(b *strings.Builder, examples []ExampleLine) {
	for _, e := range examples {
		fmt.Fprintf(b, "  # %s\n  %s\n", e.Does, e.Line)
	}
}

// groupsOf returns the headings of options, in their order.
func groupsOf(options []Option) []string {
	var groups []string
	for _, o := range options {
		if !slices.Contains(groups, o.Group) {
			groups = append(groups, o.Group)
		}
	}
	return groups
}

func inGroup(options []Option, group string) []Option {
	return slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return o.Group != group })
}

// writeOptions sets options in two columns.
func writeOptions(b *strings.Builder, options []Option) {
	const left = 30
	for _, o := range options {
		name := "    "
		if o.Short != "" {
			name = "-" + o.Short + ", "
		}
		name += o.Flag()
		if o.Value != "" {
			name += " " + o.Value
		}
		lines := strings.Split(o.Help, "\n")
		if o.Def != "" {
			lines = withDefault(lines, o.Def)
		}
		if len(name) > left-2 {
			fmt.Fprintf(b, "  %s\n", name)
			name = ""
		}
		for _, line := range lines {
			fmt.Fprintf(b, "  %-*s%s\n", left, name, line)
			name = ""
		}
	}
}

// withDefault puts the default behind the last line, or below it where it would be too wide.
func withDefault(lines []string, def string) []string {
	const right = 70
	last, text := len(lines)-1, "(default: "+def+")"
	if len(lines[last])+1+len(text) > right {
		return append(lines, text)
	}
	lines[last] += " " + text
	return lines
}

const durationsText = "Durations are Go's (90s, 1h30m), a bare number of seconds, or days (2d).\n"

func optionsText() string {
	return durationsText + `
Options have a variable and a key in the configuration file: --kill-after is LEADERRUN_KILL_AFTER and
kill_after. Those that are about one call have neither: --tick, --once, --slots, --shards and --parallel, of
break --force, --holder-is-dead, --forget-tick, --forget-once, --forget-schedule and --reason, of fence --raise
and --read, of cron --from, and what only import and lint have. An option that may be repeated takes a value a
line in a variable, and a list in a file; of any other that is given twice the last value counts. A flag counts
before a variable, a variable before a file. The files are /etc/leaderrun.yaml and leaderrun.yaml in the user's
configuration directory, whose keys count first; --config names one file instead of both, and has no key.
LEADERRUN_BACKEND_FILE names a file that holds the backend's URL. Such files belong to root or this user, and
nobody else can write them.
`
}

// environmentPage is about the variables of leaderrun: those that it reads, and those that it sets.
func environmentPage() string {
	return optionsText() + `
A variable that belongs to no option, a mistyped one too, is ignored without a word; an unknown key of a
file is an error.

COMMAND finds in its environment:
  LEADERRUN_JOB            the job; with --slots or --shards, the slot or shard: JOB#3
  LEADERRUN_SLOT           with --slots: the number of the slot, from 0
  LEADERRUN_SLOTS          with --slots: how many there are
  LEADERRUN_SHARD          with --shards: the number of the shard, from 0
  LEADERRUN_SHARDS         with --shards: how many there are
  LEADERRUN_TOKEN          the fencing token: greater than that of every run of the job before
  LEADERRUN_NATIVE_TOKEN   the backend's own number of the grant, where it has one: etcd, Consul,
                           ZooKeeper, Kubernetes
  LEADERRUN_HOLDER         the id of this run, as in ` + "`status --json`" + `
  LEADERRUN_ATTEMPT        1, or which start of a tick or key this is, with --on-lost rerun
  LEADERRUN_TICK           the tick in UTC, such as 2026-11-20T02:00:00Z; without a tick it is not set
  LEADERRUN_TICK_UNIX      the same in seconds since 1970
  LEADERRUN_ONCE           the key of --once; without a key it is not set
  LEADERRUN_SOCKET         where ` + "`leaderrun check`" + ` asks whether the run still leads
and the token once more in the variable that --token-env names. No other variable that begins with
LEADERRUN_ reaches it, nor do NOTIFY_SOCKET and WATCHDOG_… of systemd.
`
}

func backendsPage() string {
	return `A backend is named by a URL. Hosts that use the same one, with the same prefix, exclude each other.

  file:                                  this host only, in the system's or the user's state directory
  file:///var/lib/leaderrun              this host only, in that directory, which nobody else can write
  file:///srv/jobs?trust=shared          this host only, where other users can write too
  redis://host:6379/0                    Redis or Valkey; rediss:// with TLS
  redis://user:password@host:6379/0      with a password: name it by LEADERRUN_BACKEND_FILE
  redis+unix:///run/redis.sock           through a socket
  redis+sentinel://h1,h2,h3/master/0     behind Sentinel
  redis+cluster://h1,h2,h3               Redis Cluster
  etcd://h1,h2,h3                        etcd, by any of its members; etcds:// with TLS
  etcd://user:password@h1,h2,h3/prefix
  consul://localhost                     Consul, by the agent on this host; consuls:// with TLS
  consul://:token@host:8500/prefix
  k8s://namespace                        a Lease in Kubernetes, by the pod's account or a kubeconfig
  zk://h1,h2,h3/chroot                   ZooKeeper; zks:// with TLS
  postgres://user:password@host/db       PostgreSQL, a row in a table

?prefix=NAME keeps apart what shares a server; status shows it. All options, and what each backend promises:
https://github.com/leaderrun/leaderrun/blob/main/docs/backends.md
`
}
