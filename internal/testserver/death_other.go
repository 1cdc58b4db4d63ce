//go:build !linux

package testserver

import "syscall"

func deathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
