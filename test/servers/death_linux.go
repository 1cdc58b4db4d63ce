package servers

import "syscall"

// deathSignal has the kernel kill a server when the test's process dies.
func deathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
