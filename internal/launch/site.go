package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/account"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/supervise"
)

// How long a job's command and directory are looked for: longer than it takes to mount what is mounted when it is needed.
const (
	PatienceToLook  = 10 * time.Second
	PatienceToCheck = 2 * time.Second // by --check, for which somebody waits
)

// Site is where and as whom a job's command is run on this host.
type Site struct {
	path, dir string
	env       []string              // but for what tells of the run
	as        *supervise.Credential // nil: this user
}

// sought is what a look depends on: a job that is changed to avoid a file system that hangs is looked for anew.
type sought struct{ job, user, dir, command, path string }

// FindSite is lookUp that returns within a limit, or when ctx ends: HOME or a directory of PATH may be on a file system that does not
// answer.
func (l *Launcher) FindSite(ctx context.Context, j *jobfile.Job, limit time.Duration) (Site, error) {
	var found Site
	var failed error
	about := sought{j.Name, j.User, j.Dir, j.Argv[0], variable(j.Env, pathVariable)}
	err := l.Files.Call(ctx, limit, about, func() { found, failed = lookUp(j) })
	switch {
	case errors.Is(err, errSilent):
		return Site{}, &cli.Fault{
			Code: cli.CodeUnavailable, What: j.Argv[0], Err: err, Why: fmt.Sprintf("%v (%v)", err, limit.Round(time.Millisecond)),
			Hint: "the command, its directory, the user's HOME or a directory of PATH lies where nothing answers, as on a server of NFS that is gone",
		}
	case err != nil:
		return Site{}, err
	}
	return found, failed
}

// lookUp finds a job's command on this host, the directory that it starts in, and its user.
func lookUp(j *jobfile.Job) (Site, error) {
	p := Site{dir: j.Dir, env: slices.Concat(ChildEnvironment(os.Environ(), ""), j.Env)}
	if j.User != "" {
		var err error
		if p, err = siteOfUser(j); err != nil {
			return Site{}, err
		}
	}
	if p.dir != "" {
		info, err := os.Stat(p.dir)
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return Site{}, &cli.Fault{Code: cli.CodeConfiguration, What: "dir " + p.dir, Why: cli.Reason(err), Err: err}
		}
	}
	path, code, err := supervise.LookPathIn(j.Argv[0], variable(p.env, pathVariable), p.dir)
	if err != nil {
		f := &cli.Fault{Code: code, What: j.Argv[0], Why: cli.Reason(err), Err: err}
		if len(j.Argv) == 1 && strings.ContainsAny(j.Argv[0], " \t|;&") {
			f.Hint = "a line for a shell goes to the key shell"
		}
		return Site{}, f
	}
	p.path = path
	return p, nil
}

// cronPath is the PATH of cron(8), which a system crontab counts on.
const cronPath = "/usr/bin:/bin"

// siteOfUser is the site of a job with a user: the files of this host say who that is, each time, and no environment is handed
// down. What is this daemon's own, such as the backend's password, does not reach another user.
func siteOfUser(j *jobfile.Job) (Site, error) {
	who, err := account.Lookup(j.User)
	if err != nil {
		return Site{}, &cli.Fault{Code: cli.CodeConfiguration, What: "user " + strconv.Quote(j.User), Why: cli.Reason(err), Err: err}
	}
	p := Site{dir: j.Dir, as: &supervise.Credential{UID: who.UID, GID: who.GID, Groups: who.Groups}}
	p.env = slices.Concat([]string{pathVariable + "=" + cronPath, "HOME=" + who.Home}, j.Env, []string{"LOGNAME=" + who.Name, "USER=" + who.Name})
	if p.dir == "" {
		p.dir = who.Home
		if info, err := os.Stat(p.dir); err != nil || !info.IsDir() { // as many users of services have it
			p.dir = "/"
		}
	}
	return p, nil
}
