//go:build !linux

package cli

func isFirstThread() bool { return false }
