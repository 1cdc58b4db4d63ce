package guardian

import "syscall"

// waitAll is __WALL of wait4(2): children whose exit signal is not SIGCHLD count too, or ECHILD would
// not mean that none is left.
const waitAll = 0x40000000

func waitOptions(stops bool) int {
	options := syscall.WNOHANG | waitAll
	if stops {
		options |= syscall.WUNTRACED
	}
	return options
}

// attributes are the command's: a process group (0: one of its own), the cgroup where there is one, and
// SIGKILL if the guardian's main thread, which forks, dies.
func attributes(group, cgroup int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid:     true,
		Pgid:        group,
		Pdeathsig:   syscall.SIGKILL,
		UseCgroupFD: cgroup >= 0,
		CgroupFD:    max(cgroup, 0),
	}
}

// groupLeft is for systems where the process group is all there is.
func groupLeft(int) bool { return false }
