package cli

import (
	"fmt"
	"strings"
)

func manCommand() *command {
	return &command{
		name: "man", brief: "print the manual page",
		about:    "Prints leaderrun(1), for man(1).",
		examples: []exampleLine{{"read it", "leaderrun man | man -l - | cat"}, {"install it", "leaderrun man > leaderrun.1"}},
		options:  []option{helpOption()}, plain: true, run: runMan,
	}
}

// runMan sets the help pages as a manual page, man(7).
func runMan(c *call) (ExitStatus, error) {
	if len(c.args) > 0 {
		return ExitStatus{}, usage("man", "takes no arguments", "usage: "+c.cmd.usageLine())
	}
	var b strings.Builder
	b.WriteString(".TH LEADERRUN 1\n.SH NAME\nleaderrun \\- run a command on at most one of many hosts at a time\n")
	b.WriteString(".SH SYNOPSIS\n")
	for _, cmd := range commands() {
		fmt.Fprintf(&b, ".B leaderrun %s\n[options] %s\n.br\n", cmd.name, roff(cmd.args))
	}
	for _, cmd := range commands() {
		fmt.Fprintf(&b, ".SH %s\n%s\n", strings.ToUpper(cmd.name), strings.ReplaceAll(roff(cmd.about), "\n\n", "\n.PP\n"))
		for _, group := range groupsOf(cmd.options) {
			fmt.Fprintf(&b, ".SS %s\n", heading(cmd, group))
			for _, o := range inGroup(cmd.options, group) {
				writeManOption(&b, o)
			}
		}
		if len(cmd.examples) > 0 {
			b.WriteString(".PP\nExamples:\n.nf\n")
			for _, e := range cmd.examples {
				fmt.Fprintf(&b, "\n# %s\n.B %s\n", roff(e.does), roff(e.line))
			}
			b.WriteString(".fi\n")
		}
	}
	section := func(name, text string) { fmt.Fprintf(&b, ".SH %s\n.nf\n%s.fi\n", name, roff(text)) }
	section("ENVIRONMENT AND FILES", environmentPage())
	section("BACKENDS", backendsPage())
	section("EXIT STATUS", exitCodesPage())
	return ExitStatus{}, c.print(b.String())
}

func writeManOption(b *strings.Builder, o option) {
	names := `\-\-` + roff(o.name)
	if o.short != "" {
		names = `\-` + o.short + ", " + names
	}
	help := o.help
	if o.def != "" {
		help += " (default: " + o.def + ")"
	}
	fmt.Fprintf(b, ".TP\n.BI \"%s \" \"%s\"\n%s\n", names, roff(o.value), roff(help))
}

// roff quotes what would be a request or an escape.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\[u2026]`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
