package guardian

import (
	"runtime"
	"syscall"
	"unsafe"
)

// dropSignals makes every signal come to nothing that would end or stop this process: it ignores them. Package
// os/signal would do so by two round trips between threads for each. Go's runtime catches and drops all others
// (runtime/sigtab_linux_generic.go) but those of the C library, 32 to 34, which nobody sends.
//
// An ignored signal stays ignored in the command (execve(2)), which is only right for what the runtime did not
// catch because it was ignored from the start (nohup). What it has caught, it sets back itself between fork and
// exec. The stop signals it leaves alone: see liftStops.
func dropSignals() {
	setHandlers(ignored, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM)
	dropStops()
}

func dropStops() { setHandlers(ignored, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU) }

// liftStops lets the stop signals stop this process until dropStops is called: the command is forked meanwhile.
func liftStops() { setHandlers(byDefault, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU) }

const (
	byDefault = 0 // SIG_DFL
	ignored   = 1 // SIG_IGN
)

// setHandlers changes what signals do. The rest of struct sigaction (rt_sigaction(2)) stays as it is: its layout
// depends on the architecture, and it is never larger than here.
func setHandlers(handler uintptr, signals ...syscall.Signal) {
	at, setSize := 0, uintptr(8)
	if arch := runtime.GOARCH; len(arch) >= 4 && arch[:4] == "mips" {
		at, setSize = 1, 16
	}
	for _, n := range signals {
		var action [16]uintptr
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(n), 0, uintptr(unsafe.Pointer(&action)), setSize, 0, 0)
		action[at] = handler
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&action)), 0, setSize, 0, 0)
	}
}
