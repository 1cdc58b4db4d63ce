package cli

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/schedule"
)

// secrets looks who else can read a password.
func (x *doctorCall) secrets(g given) {
	const (
		what   = "password"
		remedy = backendFile + " names a file that holds the URL, for this user alone"
	)
	if g.origin == fromCommandLine && holdsPassword(g.text) {
		x.Warn(what, remedy, "it stands on the command line, which everybody on this host can read")
	}
	if path, ok := x.call.settings.lookup(backendFile); ok && g.place == backendFile && forEverybody(path) {
		x.Warn(what, "chmod o-r "+path, "everybody can read %s", path)
	}
	for _, path := range x.configFiles() {
		if forEverybody(path) && configHoldsPassword(path) {
			x.Warn(what, "chmod o-r "+path+", or "+remedy, "everybody can read the backend's URL in %s", path)
		}
	}
}

// configFiles lists the configuration files that may have been read.
func (x *doctorCall) configFiles() []string {
	if named, ok := x.call.settings.find("config"); ok {
		return []string{named.text}
	}
	user, _ := userConfigPath(x.call.settings.lookup)
	return []string{systemConfig, user}
}

func configHoldsPassword(path string) bool {
	text, _, err := readSmall(path)
	if err != nil {
		return false
	}
	values, err := parseConfig(path, text, allOptions())
	return err == nil && holdsPassword(values["backend"].text)
}

// forEverybody says whether other users than the owner and its group may read a file.
func forEverybody(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}

// holdsPassword says whether a backend URL has something in it that no output may show.
func holdsPassword(rawURL string) bool {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if _, password, _ := strings.Cut(rest[:at], ":"); password != "" {
			return true
		}
		rest = rest[at+1:]
	}
	return len(secretsOf(scheme+"://"+rest)) > 0
}

// host looks at what this host adds.
func (x *doctorCall) host() {
	if supervise.FindsProcesses() {
		killTier(&x.Findings, supervise.Tier())
	} else {
		x.Bad(killTierName, mountProc, "/proc: %s", whyNoProcesses)
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
