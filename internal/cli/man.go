package cli

import (
	"fmt"
	"strings"
)

func manCommand() *Command {
	return &Command{
		Name: "man", Brief: "print the manual page",
		About:    "Prints leaderrun(1), for man(1).",
		Examples: []ExampleLine{{"read it", "leaderrun man | man -l - | cat"}, {"install it", "leaderrun man > leaderrun.1"}},
		Options:  []Option{helpOption()}, plain: true, Run: runMan,
	}
}

// runMan sets the help pages as a manual page, man(7).
func runMan(c *Call) (ExitStatus, error) {
	if len(c.Args) > 0 {
		return ExitStatus{}, Usage("man", "takes no arguments", "usage: "+c.Cmd.UsageLine())
	}
	var b strings.Builder
	b.WriteString(".TH LEADERRUN 1\n.SH NAME\nleaderrun \\- run a command on at most one of many hosts at a time\n")
	b.WriteString(".SH SYNOPSIS\n")
	for _, cmd := range commands() {
		fmt.Fprintf(&b, ".B leaderrun %s\n[options] %s\n.br\n", cmd.Name, roff(cmd.Args))
	}
	for _, cmd := range commands() {
		fmt.Fprintf(&b, ".SH %s\n%s\n", strings.ToUpper(cmd.Name), strings.ReplaceAll(roff(cmd.About), "\n\n", "\n.PP\n"))
		for _, group := range groupsOf(cmd.Options) {
			fmt.Fprintf(&b, ".SS %s\n", heading(cmd, group))
			for _, o := range inGroup(cmd.Options, group) {
				writeManOption(&b, o)
			}
		}
		if len(cmd.Examples) > 0 {
			b.WriteString(".PP\nExamples:\n.nf\n")
			for _, e := range cmd.Examples {
				fmt.Fprintf(&b, "\n# %s\n.B %s\n", roff(e.Does), roff(e.Line))
			}
			b.WriteString(".fi\n")
		}
	}
	section := func(name, text string) { fmt.Fprintf(&b, ".SH %s\n.nf\n%s.fi\n", name, roff(text)) }
	section("ENVIRONMENT AND FILES", environmentPage())
	section("BACKENDS", backendsPage())
	section("EXIT STATUS", exitCodesPage())
	return ExitStatus{}, c.Print(b.String())
}

func writeManOption(b *strings.Builder, o Option) {
	names := `\-\-` + roff(o.Name)
	if o.Short != "" {
		names = `\-` + o.Short + ", " + names
	}
	help := o.Help
	if o.Def != "" {
		help += " (default: " + o.Def + ")"
	}
	fmt.Fprintf(b, ".TP\n.BI \"%s \" \"%s\"\n%s\n", names, roff(o.Value), roff(help))
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
