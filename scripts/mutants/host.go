package main

var (
	ownershipTests = []string{"./internal/ownership"}
	fileTests      = []string{"./backends/file", "-run", "Folder|Sticky|Regular|Command|Tree|Token|Fuzz"}
	heldTests      = []string{"./internal/supervise", "-run", "Held|Holds"}
	procTests      = []string{"./internal/cli", "-run", "TestScripts/proc"}
	socketTests    = []string{"./internal/cli", "-run", "Socket"}
	hangTests      = []string{"./internal/cli", "-run", "ThatHangs", "-timeout", "60s"}
	visibleTests   = []string{"./internal/cli", "-run", "JSONShows|PasswordsAre"}
	textfileTests  = []string{"./internal/metrics", "-run", "Foreign", "-timeout", "20s"}
)

// hostMutants are about who may do what on a host.
var hostMutants = []mutant{
	{"a run starts where /proc shows other processes", "internal/supervise/host_linux.go", "err == nil && self == strconv.Itoa(os.Getpid())", "err == nil || self == strconv.Itoa(os.Getpid())", procTests},
	{"break --force kills by the numbers of another PID namespace", "internal/flock/proc_linux.go", "err != nil || self != strconv.Itoa(os.Getpid())", "err != nil && self != strconv.Itoa(os.Getpid())", procTests},
	{"ownership: another user's file is this user's", "internal/ownership/ownership.go", "if !ok || st.Uid == rootHimself ||", "if !ok || st.Uid >= rootHimself || st.Uid == rootHimself ||", ownershipTests},
	{"ownership: a file that all can write is this user's", "internal/ownership/ownership.go", "if info.Mode().Perm()&othersWrite != 0 {", "if info.Mode().Perm()&othersWrite < 0 {", ownershipTests},
	{"ownership: a file that its group can write is this user's", "internal/ownership/ownership.go", "info.Mode().Perm()&groupWrites == 0 {", "info.Mode().Perm()&groupWrites >= 0 {", ownershipTests},
	{"ownership: whom an ACL lets write is not looked at", "internal/ownership/ownership.go", "slices.ContainsFunc(users, other)", "slices.ContainsFunc(users[:0], other)", ownershipTests},
	{"ownership: which groups an ACL lets write is not looked at", "internal/ownership/acl.go", "\t\t\tgroups = append(groups, id)\n", "", ownershipTests},
	{"ownership: what is no regular file is this user's", "internal/ownership/ownership.go", "if !handedOver(path) {", "if !handedOver(path) && path == \"\" {", ownershipTests},
	{"ownership: a group of other members is the owner's own", "internal/ownership/group.go", "if name != \"\" || slices.ContainsFunc(strings.Split(f[3], \",\"), others) {", "if name != \"\" || slices.ContainsFunc([]string{}, others) {", ownershipTests},
	{"ownership: a group of other users is the owner's own", "internal/ownership/group.go", "if f[0] != name || f[2] != owner {", "if f[0] != name && f[2] != owner {", ownershipTests},
	{"ownership: a group that the owner does not have first is the owner's own", "internal/ownership/group.go", "return found\n", "return found || name != \"\"\n", ownershipTests},
	{"ownership: a regular file is any", "internal/ownership/ownership.go", "if err := check(path, info, aclOf(f)); err != nil {\n\t\t_ = f.Close()", "if err := check(path, info, aclOf(f)); err != nil && flags < 0 {\n\t\t_ = f.Close()", ownershipTests},
	{"ownership: folders above are not looked at", "internal/ownership/ownership.go", "err = check(at, info, aclAt(at))\n", "if len(rest) == 0 {\n\t\t\terr = check(at, info, aclAt(at))\n\t\t}\n", ownershipTests},
	{"ownership: another's symbolic link is followed", "internal/ownership/ownership.go", "if err := owned(path, info); err != nil {\n\t\treturn \"\", onTheWay(err)\n\t}\n\treturn os.Readlink(path)", "return os.Readlink(path)", []string{"./backends/file", "-run", "Folder"}},
	{"ownership: a pipe that nobody writes to is waited for", "internal/ownership/ownership.go", "os.O_RDONLY|readWithWait|syscall.O_CLOEXEC", "os.O_RDONLY|syscall.O_CLOEXEC", []string{"./internal/ownership", "-run", "Pipe", "-timeout", "20s"}},
	{"file: the command gets the lease", "backends/file/read.go", "g.Hold, g.Inherit = []*os.File{l.lease}, []*os.File{l.tree}", "g.Hold, g.Inherit = []*os.File{l.tree}, []*os.File{l.lease}", fileTests},
	{"file: a tree that lives is nobody's", "backends/file/lock.go", "tree, err := take(p.tree, syscall.LOCK_EX,", "tree, err := take(p.tree, syscall.LOCK_SH,", []string{"./backends/file", "-run", "Inherited|Tree"}},
	{"file: a run goes on without the file of its tree", "backends/file/lock.go", "if there, err := l.locks.areAt(l.paths); !there", "if there, err := flock.IsAt(l.locks.lease, l.lock); !there", []string{"./backends/file", "-run", "Tree"}},
	{"file: a folder is not looked at", "backends/file/config.go", "err := ownership.CheckFolder(dir)", "var err error", fileTests},
	{"file: another's file in a sticky folder is a job's", "backends/file/config.go", "f, _, err := ownership.Open(path, flags|syscall.O_NOFOLLOW, fileMode)", "f, _, err := ownership.OpenRegular(path, flags|syscall.O_NOFOLLOW, fileMode)", fileTests},
	{"file: the token of a lock is taken as it is", "backends/file/lock.go", "if o.Token < 0 || o.Token > backends.MaxToken {", "if o.Token < 0 && o.Token > backends.MaxToken {", fileTests},
	{"file: the token of a lock is forgotten", "backends/decide.go", "d.c.Floor+1, d.v.Floor+1)", "d.c.Floor+1)", []string{"./backends/file", "-run", "EmptyRecord"}},
	{"file: any free lock is that of the record's run", "backends/file/read.go", "if last == labelOf(t.record) {", "if last.Token >= 0 {", []string{"./backends/file", "-run", "OrderWithoutLock"}},
	{"file: a renewal takes a turn", "backends/file/read.go", "record.Token < l.label.Token {", "record.Token <= l.label.Token {", []string{"./backends/file", "-run", "RenewNeedsNoTurn", "-timeout", "20s"}},
	{"file: a record that cannot be read costs the lease", "backends/file/read.go", "if o != t.lease.label || err != nil {", "if o != t.lease.label || err != nil || unread != nil {", []string{"./backends/file", "-run", "RenewSurvives"}},
	{"file: a renewal is written that was decided before", "backends/file/swap.go", "if s != t.seen {", "if s == nil {", []string{"./backends/file", "-run", "Guardian"}},
	{"file: what a step that was given up has locked stays so", "backends/file/file.go", "\t\tt.steps.Wait()\n", "", []string{"./backends/file", "-run", "GivenUp", "-timeout", "20s"}},
	{"file: a renewal that finds its lease lost frees the locks", "backends/file/file.go", "t.ends() && !l.isIn(t.record) {", "!l.isIn(t.record) {", []string{"./backends/file", "-run", "RaisedToken"}},
	{"file: a raised token takes no lease", "backends/file/lock.go", "return r.Token < l.label.Token || labelOf(r) == l.label && !r.Free()", "return true", []string{"./backends/file", "-run", "RaisedToken"}},
	{"file: a lock that was waited for is not handed over", "backends/file/read.go", "t.locks = t.handed(t.job); t.locks == nil {", "t.locks = nil; t.locks == nil {", []string{"./backends/file", "-run", "HandedOver"}},
	{"file: the record is written before whose the lock is", "backends/file/swap.go", "if err := writeOwner(t.locks.lease, *w.Lease); err != nil {\n\t\treturn nil, err\n\t}\n\tif err := t.save(w.Record); err != nil {", "if err := t.save(w.Record); err != nil {\n\t\treturn nil, err\n\t}\n\tif err := writeOwner(t.locks.lease, *w.Lease); err != nil {", []string{"./backends/file", "-run", "OwnerComesFirst"}},
	{"file: a lock is closed and not freed", "internal/flock/flock.go", "_ = Ask(f, syscall.LOCK_UN)\n", "", []string{"./backends/file", "-run", "FinishUnlocksForAll"}},
	{"a record's numbers are taken as they are", "backends/record.go", "err := r.Check()\n\treturn r, err", "return r, nil", []string{"./backends", "-run", "Numbers"}},
	{"a record's time to live is taken as it is", "backends/record.go", "within(\"ttl\", r.TTL, maxRecordTTL)", "within(\"ttl\", r.TTL, 1<<63-1)", []string{"./backends", "-run", "Numbers"}},
	{"a record may be of any length", "backends/record.go", "if n > maxRecord {", "if false {", []string{"./backends", "-run", "LongRecord"}},
	{"guardian: the command gets what is to be held", "internal/supervise/guardian/handle.go", "g.fork(r, fds[:r.Inherit])", "g.fork(r, fds)", heldTests},
	{"guardian: does not hold what the command has not", "internal/supervise/guard.go", "duplicates(slices.Concat(c.Inherit, c.Hold))", "duplicates(slices.Concat(c.Inherit, c.Hold)[:len(c.Inherit)])", heldTests},
	{"metrics: a pipe in the lock's place is waited for", "internal/ownership/ownership.go", "flags|readWithWait|syscall.O_CLOEXEC", "flags|syscall.O_CLOEXEC", textfileTests},
	{"metrics: a link in the lock's place is followed", "internal/metrics/textfile.go", "ownership.OpenRegular(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)\n\t\tif", "ownership.OpenRegular(path, os.O_RDONLY, 0)\n\t\tif", textfileTests},
	{"metrics: a file that says something else is added to", "internal/metrics/textfile.go", "!bytes.Equal(again, text)", "bytes.Equal(again, nil)", textfileTests},
	{"the socket of a run is waited for as long as its directory hangs", "internal/cli/hanging.go", "timer := time.NewTimer(limit)\n\tdefer timer.Stop()\n\tselect {\n\tcase err := <-done", "timer := time.NewTimer(time.Hour)\n\tdefer timer.Stop()\n\tselect {\n\tcase err := <-done", []string{"./internal/cli", "-run", "HoldsUpNoRun"}},
	{"the socket of a run says yes to what it was not asked", "internal/cli/socket.go", "DisableGeneralOptionsHandler: true,", "DisableGeneralOptionsHandler: false,", socketTests},
	{"cron: a directory that hangs is waited for", "internal/cli/hanging.go", "case <-ctx.Done():\n\t\t\treturn context.Cause(ctx)", "case <-make(chan int):\n\t\t\treturn context.Cause(ctx)", hangTests},
	{"cron: a directory that hangs is looked at again and again", "internal/cli/hanging.go", "if over = h.under[what]; over != nil {", "if over = h.under[what]; over != nil && len(h.under) > 9 {", hangTests},
	{"cron: a drain waits for a directory that hangs", "internal/cli/cron_launch.go", "a.findSite(ctx, a.job, patienceToLook)", "a.findSite(context.Background(), a.job, time.Hour)", hangTests},
	{"cron: a retry waits for a directory that hangs", "internal/cli/cron_launch.go", "limit := min(patienceToLook, d.Term.Sub(boottime.Now()))", "limit := d.Term.Sub(boottime.Now()) + time.Hour", hangTests},
	{"what hangs beforehand cannot be interrupted", "internal/cli/hanging.go", "if supervise.EndsRun(sig) {\n\t\t\t\tc.interrupt(sig)", "if supervise.EndsRun(sig) && sig == 0 {\n\t\t\t\tc.interrupt(sig)", []string{"./internal/cli", "-run", "HangsBeforehand", "-timeout", "60s"}},
	{"cron: a pipe that another process keeps stays open", "internal/cli/cron_launch.go", "\ta.pipes.leave()\n", "", []string{"./internal/cli", "-run", "PipeThat", "-timeout", "60s"}},
	{"the socket of a run tells what the backend says", "runner/lease.go", "err: err, cause: l.failure})", "err: errors.Join(err, l.failure), cause: l.failure})", []string{"./runner", "-run", "DoNotTell"}},
	{"the daemon's directory of sockets is another's", "internal/cli/socket.go", "if h.dir != \"\" && !h.isOurs() {\n\t\th.dir = \"\"", "if h.dir != \"\" && false {\n\t\th.dir = \"\"", socketTests},
	{"JSON hides what nobody sees", "internal/cli/visible.go", "case !hidden(r):", "case hidden(r) || !hidden(r):", visibleTests},
	{"a password is told where a file is looked for", "internal/cli/visible.go", "word = hide(word, secret)", "word = hide(word, \"\")", visibleTests},
}
