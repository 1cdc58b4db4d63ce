package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker (-X) where a release is built; the rest comes from the build itself.
var version string

func versionCommand() *command {
	return &command{
		name: "version", brief: "show the version",
		about:    "Shows the version, the commit and the Go release that this program was built from.",
		examples: []exampleLine{{"the same", "leaderrun --version"}},
		options:  []option{helpOption()}, plain: true, run: showVersion,
	}
}

func showVersion(c *call) (End, error) {
	if len(c.args) > 0 {
		return End{}, usage("version", "takes no arguments", "usage: leaderrun version")
	}
	return End{}, c.print("leaderrun " + versionText() + "\n")
}

func versionText() string {
	v, commit := version, ""
	info, ok := debug.ReadBuildInfo()
	if ok && v == "" {
		v = info.Main.Version
	}
	if v == "" {
		v = "(devel)"
	}
	if ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = " commit " + s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				commit += " with changes"
			}
		}
	}
	return fmt.Sprintf("%s%s %s %s/%s", v, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
