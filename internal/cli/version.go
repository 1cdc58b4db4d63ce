package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// A release sets these by the linker (-X). What they leave out, the build itself says: its commit, or the version of the module that
// go install took.
var version, commit, date string

func versionCommand() *Command {
	return &Command{
		Name: "version", Brief: "show the version",
		About:    "Shows the version, the commit and its date, and the Go release that this program was built with.",
		Examples: []ExampleLine{{Does: "the same", Line: "leaderrun --version"}},
		Options:  []Option{helpOption()}, plain: true, Run: showVersion,
	}
}

func showVersion(c *Call) (ExitStatus, error) {
	if len(c.Args) > 0 {
		return ExitStatus{}, Usage("version", "takes no arguments", "usage: leaderrun version")
	}
	return ExitStatus{}, c.Print("leaderrun " + versionText() + "\n")
}

func versionText() string {
	v, of, at, changed := version, commit, date, ""
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				of = s.Value
			case s.Key == "vcs.time":
				at = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
	}
	if v == "" {
		v = "(devel)"
	}
	if of != "" {
		v += " commit " + of[:min(len(of), 12)] + changed
	}
	if at != "" {
		v += " of " + at
	}
	return fmt.Sprintf("%s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
