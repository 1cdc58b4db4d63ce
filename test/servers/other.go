//go:build !linux

package servers

import (
	"errors"
	"syscall"
)

// What only Linux can, or tells.

// Inside does something in a network namespace.
func Inside(string, func() error) error { return errors.ErrUnsupported }

// Children returns the processes that a process has started and not yet waited for.
func Children(int) []int { return nil }

// Runs says whether a process is there and has not ended.
func Runs(int) bool { return false }

func frozen(int) bool { return true }

func deathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
