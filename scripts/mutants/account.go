package main

var (
	accountTests    = []string{"./internal/account"}
	credentialTests = []string{"./internal/supervise", "-run", "RunsAsAnother|EnteredAsTheUser|KeyringOfItsOwn"}
	systemTests     = []string{"./internal/cli", "-run", "TestScripts/cron-system"}
	loadTests       = []string{"./internal/jobfile", "-run", "FolderOfOthers|Hostile|Several|UserColumn|Refused"}
)

// accountMutants are about who a job runs as. As another user than root some of their tests are left out.
var accountMutants = []mutant{
	{"user: the job keeps root's number", "internal/supervise/guardian/handle.go", "Uid: as.UID,", "Uid: 0,", credentialTests},
	{"user: the job keeps the daemon's groups", "internal/supervise/guardian/handle.go", "Groups: as.Groups}", "NoSetGroups: true}", credentialTests},
	{"user: the job keeps root's group", "internal/supervise/guardian/handle.go", "Gid: as.GID,", "Gid: 0,", credentialTests},
	{"user: the guardian is not told", "internal/supervise/guard.go", "As: c.As,", "", credentialTests},
	{"user: the job holds what the daemon was started with", "internal/supervise/guardian/handle.go", "if r.As != nil { // what root's daemon", "if r.Path == \"?\" { // what root's daemon", systemTests},
	{"user: the job shares root's session keyring", "internal/supervise/guardian/handle.go", "errno := leaveSessionKeyring(); errno != 0", "errno := syscall.Errno(0); errno != 0", credentialTests},
	{"user: others can lock the cgroup of a run", "internal/supervise/tree/cgroup_linux.go", "leafMode = 0o711", "leafMode = 0o755", []string{"./internal/supervise/tree", "-run", "AbandonedCgroups"}},
	{"user: a credential that is broken is none", "internal/supervise/guardian/wire.go", "return nil, errFrame\n\t}\n\tvar ids", "return nil, nil\n\t}\n\tvar ids", []string{"./internal/supervise/guardian"}},
	{"user: who has no line in passwd is root", "internal/account/account.go", "\treturn Account{}, ErrUnknown\n}\n\n// id reads", "\treturn Account{Name: name, Home: \"/\"}, nil\n}\n\n// id reads", accountTests},
	{"user: a number that is none is 0", "internal/account/account.go", "return 0, fmt.Errorf(\"has a line in %s with the number %q\", passwdFile, text)", "return 0, nil", accountTests},
	{"user: a short line is a user's", "internal/account/account.go", "if len(fields) != all {", "if len(fields) < 4 {", accountTests},
	{"crontab: a file with Windows line ends is run", "internal/jobfile/crontab.go", "bytes.HasPrefix(text[at:], []byte(\"\\r\\n\"))", "false", loadTests},
	{"user: a line whose user is unknown is read", "internal/jobfile/crontab.go", "case !c.host.IsUser(name):", "case name == \"\":", loadTests},
	{"user: the daemon's environment reaches the job", "internal/cli/cron_site.go", "slices.Concat([]string{pathVariable + \"=\" + cronPath,", "slices.Concat(os.Environ(), []string{pathVariable + \"=\" + cronPath,", systemTests},
	{"user: the job's lines pass for the daemon's", "internal/cli/cron_output.go", "if t.job.User != \"\" && t.job.Prefix == \"\" {", "if t.job.User == \"?\" {", systemTests},
	{"user: who has lost the line runs on", "internal/cli/cron_site.go", "if p, err = siteOfUser(j); err != nil {\n\t\t\treturn site{}, err", "if p, err = siteOfUser(j); err != nil && p.dir == \"?\" {\n\t\t\treturn site{}, err", systemTests},
	{"user: the socket is everybody's", "internal/cli/socket.go", "errors.Join(os.Chmod(path, 0o600), ", "errors.Join(os.Chmod(path, 0o666), ", systemTests},
	{"directory: the folders above are not looked at", "internal/jobfile/load.go", "err = ownership.CheckFolder(whole)", "err = ownership.CheckFolder(whole[:1])", loadTests},
	{"directory: a link to a system crontab leads anywhere", "internal/jobfile/load.go", "bare(checkFolder(s.path))", "bare(checkFolder(filepath.Dir(s.path)))", loadTests},
	{"root's job file is in another's folder", "internal/jobfile/load.go", "case how.System || os.Geteuid() == 0:", "case how.System:", loadTests},
	{"directory: a link or a pipe is a file", "internal/jobfile/load.go", "case !e.Type().IsRegular():", "case e.Name() == \"?\":", loadTests},
	{"directory: each file has names of its own", "internal/jobfile/load.go", "r.names, r.how, r.several = names, how,", "r.names, r.how, r.several = map[string]string{\"?\": names[\"?\"]}, how,", loadTests},
	{"crontab: a run inside has the lease of its daemon's job", "internal/jobfile/reader.go", "if _, taken := r.names[run.Job]; !taken {", "if true {", loadTests},
	{"crontab: what is quoted for another shell is not looked into", "internal/jobfile/reader.go", `lines.Read("", script.String()).Texts {`, `lines.Read("", script.String()).Texts[:1] {`, loadTests},
}
