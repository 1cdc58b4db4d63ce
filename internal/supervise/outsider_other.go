//go:build !linux

package supervise

import "syscall"

func pidfdOpen(int) (int, error) { return -1, syscall.ENOSYS }

// Signal is never reached: nothing can be opened.
func (o *Outsider) Signal(syscall.Signal) error { return syscall.ENOSYS }

// Close does nothing.
func (o *Outsider) Close() {}

// ArgumentsOf returns nil: this system does not show them.
func ArgumentsOf(int) []string { return nil }

// Holders returns nil: this system does not show them.
func Holders() []string { return nil }

// IsGuardian returns false: this system does not show it.
func IsGuardian(int) bool { return false }
