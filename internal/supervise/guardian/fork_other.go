//go:build !linux

package guardian

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

func waitOptions(stops bool) int {
	if stops {
		return syscall.WNOHANG | syscall.WUNTRACED
	}
	return syscall.WNOHANG
}

// attributes are the command's: a process group (0: one of its own).
func attributes(group, _ int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// leaveSessionKeyring: only Linux has one.
func leaveSessionKeyring() syscall.Errno { return 0 }

// groupLeft tells whether the process group, which is all there is here, has a member.
func groupLeft(group int) bool { return group > 0 && syscall.Kill(-group, 0) == nil }

// killMyselfAt has no timer of the kernel's here: an exec that hangs past the deadline is not covered.
func killMyselfAt(boottime.Instant) (disarm func()) { return func() {} }
