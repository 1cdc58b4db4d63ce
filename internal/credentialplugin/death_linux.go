package credentialplugin

import "syscall"

// attributes are a plugin's: a process group of its own, because it may be a script, and what that has started is killed with
// it; and SIGKILL if the thread dies that started it. So it does not outlive a process that was killed, but what a script has
// started then may.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
