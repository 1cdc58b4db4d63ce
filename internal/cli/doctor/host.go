package doctor

import (
	"errors"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/schedule"
)

// secrets looks who else can read a password.
func (x *doctorCall) secrets(g cli.Given) {
	const what = "password"
	if g.Origin == cli.FromCommandLine && cli.HoldsPassword(g.Text) {
		x.Warn(what, cli.BackendFile+" names a file that holds the URL, for this user alone", "it stands on the command line, which everybody on this host can read")
	}
	if path, ok := x.call.Settings.Lookup(cli.BackendFile); ok && g.Place == cli.BackendFile && forEverybody(path) {
		x.Warn(what, "chmod o-r "+path, "everybody can read %s", path)
	}
	for _, path := range x.configFiles() {
		if forEverybody(path) && configHoldsPassword(path) {
			x.Warn(what, cli.HideRemedy(path), "everybody can read the backend's URL in %s", path)
		}
	}
}

// configFiles lists the configuration files that may have been read.
func (x *doctorCall) configFiles() []string {
	if named, ok := x.call.Settings.Find("config"); ok {
		return []string{named.Text}
	}
	user, _ := cli.UserConfigPath(x.call.Settings.Lookup)
	return []string{cli.SystemConfig, user}
}

func configHoldsPassword(path string) bool {
	text, _, err := cli.ReadSmall(path)
	if err != nil {
		return false
	}
	values, err := cli.ParseConfig(path, text, cli.AllOptions())
	return err == nil && cli.HoldsPassword(values["backend"].Text)
}

// forEverybody says whether other users than the owner and its group may read a file.
func forEverybody(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}

// host looks at what this host adds.
func (x *doctorCall) host() {
	if supervise.FindsProcesses() {
		killTier(&x.Findings, supervise.Tier())
	} else {
		x.Bad(killTierName, launch.MountProc, "/proc: %s", launch.WhyNoProcesses)
	}
	synchronised(&x.Findings)
	const what = "time zone"
	zone, err := schedule.HostZone()
	if err == nil {
		_, err = time.LoadLocation(zone)
	}
	if err == nil {
		x.Fine(what, "%s", zone)
		return
	}
	remedy := "set TZ to the name of a zone, or --timezone"
	if e, ok := errors.AsType[*schedule.Error](err); ok && e.Hint != "" {
		remedy = "set TZ or --timezone: " + e.Hint
	}
	x.Warn(what, remedy, "%v: schedules need --timezone on this host", err)
}

const killTierName = "kill tier"

// killTier says by what means a run's processes are ended.
func killTier(f *checkup.Findings, tier string) {
	const what = killTierName
	switch tier {
	case "cgroup+subreaper":
		f.Fine(what, "%s: a run has a cgroup of its own, and what leaves it is found too", tier)
	case "subreaper":
		f.Fine(what, "%s: every process that a run starts is found, without a cgroup of its own", tier)
	default:
		f.Warn(what, "run jobs that start daemons (setsid) on Linux", "%s: what leaves it is not found on this system", tier)
	}
}

// judgeClock tells what the kernel says of the host's clock: whether somebody keeps it in step, and how far it may be
// off.
func judgeClock(f *checkup.Findings, synchronised bool, off time.Duration, err error) {
	const (
		what   = "host clock"
		remedy = "run chronyd, or another NTP client"
	)
	switch {
	case err != nil:
		f.Fine(what, "the kernel does not say whether it is synchronised: %v", err)
	case !synchronised:
		f.Warn(what, remedy, "not synchronised: it may drift away from the other hosts', and ticks with it")
	default:
		f.Fine(what, "synchronised, to within %v", off.Round(time.Millisecond))
	}
}
