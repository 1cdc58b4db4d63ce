//go:build !linux

package servers

import "syscall"

func deathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
