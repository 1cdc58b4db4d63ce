package guardian

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// handle obeys one message of the wrapper, or its death.
func (g *guardian) handle(r received) {
	if r.err != nil {
		g.orphaned()
		return
	}
	m := r.message
	switch m.Kind {
	case Setup:
		if len(m.Strings) > 0 {
			// A cgroup that cannot be made is no fault: the subreaper's sweep does the work.
			g.cgroup, _ = tree.MakeCgroup(m.Strings[0])
		}
	case Start:
		g.start(m, r.fds)
	case Extend:
		g.extend(m.deadline(1))
		g.tell(Message{Kind: Ack, Numbers: []int64{m.Number(0)}})
	case Signal:
		g.signal(syscall.Signal(m.Number(0)))
	case Terminate:
		if g.phase == guarding || g.phase == killing {
			g.terminate()
		}
	case Kill:
		if g.phase == guarding {
			g.kill(boottime.Now())
		}
	case Dismiss:
		g.dismissed = true
	}
}

// extend moves the deadline, only forward. Once SIGKILL was sent it changes nothing any more, until the whole tree is dead: then the
// deadline is only until when the guardian keeps the locks for a wrapper that is alive (see act).
func (g *guardian) extend(d lifeline.Deadline) {
	if g.phase == waiting || g.phase == killing || d.End <= g.deadline.End {
		return
	}
	g.deadline = d
	if boottime.Now() < d.Term {
		g.termed = false
	}
}

// orphaned: the wrapper is dead, nobody will extend. TERM now, KILL after the grace period; the
// deadline stays as it was.
func (g *guardian) orphaned() {
	g.gone, g.out = true, nil
	if g.phase != guarding {
		return
	}
	g.terminate()
	g.soonerKill(boottime.Now().Add(g.request.Grace))
}

// start runs the command and answers with its pid, the error, and whether it was too late.
func (g *guardian) start(m Message, fds []int) {
	r, err := m.startRequest()
	if err != nil || g.phase != waiting || r.Inherit < 0 || r.Inherit > len(fds) {
		closeAll(fds)
		g.answer(0, syscall.EINVAL, false)
		return
	}
	showHolder(r.Holder)
	pid, errno, late := g.fork(r, fds[:r.Inherit])
	if pid == 0 {
		closeAll(fds)
		g.answer(0, errno, late)
		return
	}
	g.request, g.deadline, g.locks = r, r.Deadline, fds
	g.phase, g.pid, g.running = guarding, pid, true
	g.events.watch(pid)
	tree.KeepAlive() // after the fork: the command is like others
	g.request.Argv, g.request.Env = nil, nil
	g.answer(pid, 0, false)
}

func (g *guardian) answer(pid int, errno syscall.Errno, late bool) {
	g.tell(Message{Kind: Started, Numbers: []int64{int64(pid), int64(errno), oneIf(late)}})
	g.flush()
}

// fork starts the command, in the cgroup where that works. The clock is compared directly before: a
// command that would be told to end at once is not started either.
func (g *guardian) fork(r StartRequest, fds []int) (pid int, errno syscall.Errno, late bool) {
	liftStops() // the command is not to find them ignored
	defer dropStops()
	inherited := g.inherited
	if r.As != nil { // what root's daemon was started with, such as a file with a password, is not for another user
		for _, fd := range inherited {
			syscall.CloseOnExec(fd)
		}
		inherited = nil
		if errno := leaveSessionKeyring(); errno != 0 {
			return 0, errno, false
		}
	}
	attr := &syscall.ProcAttr{Dir: r.Dir, Env: r.Env, Files: FileTable(inherited, fds)}
	cgroups := []int{-1}
	if g.cgroup != nil {
		cgroups = []int{g.cgroup.Descriptor(), -1}
	}
	for _, cgroup := range cgroups {
		attr.Sys = attributes(r.Group, cgroup)
		if as := r.As; as != nil {
			attr.Sys.Credential = &syscall.Credential{Uid: as.UID, Gid: as.GID, Groups: as.Groups}
		}
		if boottime.Now() >= r.Deadline.Term {
			return 0, 0, true
		}
		disarm := killMyselfAt(r.Deadline.Kill)
		pid, err := syscall.ForkExec(r.Path, r.Argv, attr)
		if err == syscall.ENOEXEC && isText(r.Dir, r.Path) { // as bash and execvp(3) do
			pid, err = syscall.ForkExec(shell, append([]string{shell, r.Path}, r.Argv[1:]...), attr)
		}
		disarm()
		if err == nil {
			return pid, 0, false
		}
		errno = errnoOf(err)
		if !cgroupRefused(errno) {
			break
		}
		// clone3(2) may have refused the cgroup, or execve(2) the file: without the cgroup we know.
	}
	return 0, errno, false
}

// cgroupRefused lists what clone3(2) returns for CLONE_INTO_CGROUP where it cannot be used.
func cgroupRefused(errno syscall.Errno) bool {
	switch errno {
	case syscall.EPERM, syscall.EACCES, syscall.EBUSY, syscall.ENOSYS, syscall.EINVAL, syscall.EOPNOTSUPP,
		syscall.EBADF, syscall.ENODEV, syscall.ENOENT, syscall.EAGAIN:
		return true
	}
	return false
}

func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	return syscall.EIO
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// unlock gives back the locks that the dead tree held together with the wrapper, and then those that we did (flock(2):
// LOCK_UN on any of the descriptors of one open file description).
func (g *guardian) unlock() {
	for _, fd := range g.locks {
		_ = syscall.Flock(fd, syscall.LOCK_UN)
	}
	closeAll(g.locks)
	g.locks = nil
}
