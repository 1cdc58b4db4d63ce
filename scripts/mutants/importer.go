package main

var (
	importTests = []string{"./internal/importer", "-short"}
	unitTests   = []string{"./internal/importer", "-short", "-run", "Units"}
	readTests   = []string{"./internal/crontab", "-short"}
	lintTests   = []string{"./internal/cli", "-run", "TestLint|TestScripts/lint"}
)

// importMutants break the rules of what becomes of the crontabs of others.
var importMutants = []mutant{
	{"import: an edit that came meanwhile is lost", "internal/importer/read.go", "if err == nil && !f.isAsRead() {", "if false {", []string{"./internal/importer", "-run", "TestWrite"}},
	{"import: a quote in a command ends the word", "internal/importer/importer.go", "strings.ReplaceAll(text, \"'\", `'\\''`)", "text", importTests},
	{"import: what stands behind a % is lost", "internal/importer/importer.go", "return b.String() + j.stdin", "return b.String()", importTests},
	{"import: two \\ are taken for one", "internal/importer/importer.go", "strings.Contains(j.raw, `\\\\`)", "false", importTests},
	{"import: a \\ before a % ends the command", "internal/importer/importer.go", "(c == '\\\\' || c == '%')", "c == '\\\\'", importTests},
	{"import: what follows a ; in a unit is arguments", "internal/importer/systemd.go", "begun && plain && word.String() == \";\"", "begun && !plain && word.String() == \";\"", unitTests},
	{"import: CRON_TZ counts for lines without a zone", "internal/importer/systemd.go", "cmp.Compare(a.Timezone, b.Timezone)", "cmp.Compare(b.Timezone, a.Timezone)", unitTests},
	{"import: two fields for days mean to supercronic what they mean to cron", "internal/crontab/crontab.go", "strings.ContainsRune(fields[2][:1]+fields[4][:1], '*'):", "fields == nil:", importTests},
	{"import: a command that a % cuts short is wrapped", "internal/importer/importer.go", "crontab.IsCutShort(l.Command)", "l == nil", importTests},
	{"import: a timer of any user is root's", "internal/importer/systemd.go", "cmp.Or(u.last(\"User\"), \"root\")", "cmp.Or(\"root\", u.name)", []string{"./internal/cli", "-run", "TestScripts/import"}},
	{"import: words that a shell replaces are plain", "internal/importer/importer.go", "t.Operator || !t.Literal })", "t.Operator })", importTests},
	{"import: a command of any length is written", "internal/importer/importer.go", "n > crontab.MaxCommand", "n > 99*crontab.MaxCommand", importTests},
	{"import: a line that cron refuses is made a right one", "internal/importer/importer.go", "f.Format); wrong != nil {", "f.Format); wrong != nil && l == nil {", importTests},
	{"import: TZ is taken for the zone of cron", "internal/importer/importer.go", "case s.cronTZ == \"\" && s.tz != \"\"", "case false && s.tz != \"\"", importTests},
	{"import: a run is wrapped again", "internal/importer/importer.go", "case isRun().MatchString(command.Text):", "case j == nil:", importTests},
	{"import: a lock that two jobs share is taken off", "internal/importer/importer.go", "x.users[word] > 1", "x.users[word] > 99", importTests},
	{"import: a name is given to two jobs", "internal/importer/importer.go", "n > 1 && j.Word != Left", "n > 9 && j.Word != Left", importTests},
	{"import: a lock is waited for without the limit before it", "internal/importer/peel.go", "case p.waits && limited:", "case p.waits && !limited:", importTests},
	{"import: what is wrong as it was written is written", "internal/importer/importer.go", "j.Word != Left && wrong[line] != \"\"", "j.Word == Left && wrong[line] != \"\"", importTests},
	{"import: the work of the host is a job", "internal/importer/importer.go", "\tcase work != \"\":\n", "\tcase work == \"-\":\n", importTests},
	{"import: what goes on in the background is a job", "internal/importer/importer.go", "\tcase behind != \"\":\n", "\tcase behind == \"-\":\n", importTests},
	{"import: a timer's delay is longer than its interval", "internal/importer/systemd.go", "delay >= gap {", "delay > 2*gap {", importTests},
	{"crontab: texts for another shell are not looked into", "internal/crontab/commands.go", "case option, takesText && t.Quoted:", "case option && i < 0, takesText && t.Quoted:", readTests},
	{"import: a lock is taken off that guards a part of the line", "internal/importer/peel.go", "!command.Ended || job.doubled() || controls(tokens)", "!command.Ended || job.doubled()", importTests},
	{"import: options of a lock are not looked at", "internal/importer/peel.go", "if first[o.Name] == \"\" {", "if first[o.Name] == \"-\" {", importTests},
	{"import: a link is replaced by a file", "internal/importer/read.go", "|syscall.O_NOFOLLOW, 0)\n\tif errors.Is(err, syscall.ELOOP)", ", 0)\n\tif errors.Is(err, syscall.ELOOP)", importTests},
	{"import: a file with two names is replaced", "internal/importer/read.go", "!ok || st.Nlink > 1 {", "!ok || st.Nlink > 9 {", importTests},
	{"import: a file that others can write is written to", "internal/importer/read.go", "if ownership.OthersWrite(old, info) {", "if ownership.OthersWrite(old, info) && err != nil {", importTests},
	{"import: a user's crontab is not read back", "internal/importer/user.go", "string(now.Text) != string(f.After)", "len(now.Text) < 0", []string{"./internal/cli", "-run", "TestScripts/user-crontab"}},
	{"import: a crontab is written that cron ignores", "internal/importer/read.go", "if why := f.whyNotLoaded(); why != \"\" {", "if why := f.whyNotLoaded(); why == \"-\" {", importTests},
	{"import: a folder of others is written to", "internal/importer/read.go", "if err := ownership.CheckFolder(dir); err != nil {", "if err := ownership.CheckFolder(dir); err != nil && dir == \"\" {", []string{"./internal/cli", "-run", "TestScripts/import"}},
	{"import: the mode of the former file is lost", "internal/importer/read.go", "file.Chmod(info.Mode().Perm())", "file.Chmod(0o644)", importTests},
	{"crontab: a name may have a secret in it", "internal/crontab/name.go", "strings.Trim(verb, \"abcdefghijklmnopqrstuvwxyz-\") != \"\"", "verb == \" \"", readTests},
	{"crontab: substitutions have no limit", "internal/crontab/words.go", "s.depth > maxNested", "s.depth > maxNested+1", readTests},
	{"crontab: a number with letters is a number", "internal/crontab/load.go", "strings.Trim(word, digits) == \"\"", "true", readTests},
	{"crontab: a \\ before a % does not count", "internal/crontab/line.go", "\t\tcase '\\\\':\n\t\t\ti++\n", "", readTests},
	{"lint: a schedule may be another than that of the line", "internal/lint/lint.go", "if len(exprs) > 0 && !isOnePerTick", "if len(exprs) > 9 && !isOnePerTick", lintTests},
	{"lint: a command may have two names on two hosts", "internal/lint/lint.go", "isOther && a.source.Host != other.source.Host", "isOther && a.source.Host == other.source.Host", lintTests},
	{"lint: one job may have two backends", "internal/lint/lint.go", "case !a.place.IsSame(*b.place):", "case !a.place.IsSame(*a.place):", lintTests},
	{"lint: a variable of this shell is a backend for cron", "internal/cli/lint.go", "return named && !strings.HasPrefix(g.place, prefix), err", "return named && g.place != prefix, err", lintTests},
	{"import: a unit is read as its package has it", "internal/importer/unitpath.go", "beside := p.of(name); len(beside) == 1", "beside := (unitPath{filepath.Dir(timer.path)}); len(beside) == 1", unitTests},
	{"import: a drop-in that is overridden is read", "internal/importer/unitpath.go", "first[file] == \"\" && file[0]", "file[0]", unitTests},
	{"import: a unit that is masked is read", "internal/importer/unitpath.go", "path: path, masked: empty,", "path: path, masked: empty && dir == \"?\",", unitTests},
}
