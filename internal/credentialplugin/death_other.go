//go:build !linux

package credentialplugin

import "syscall"

// attributes are a plugin's: a process group of its own, because it may be a script, and what that has started is killed with
// it. It outlives a process that was killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
