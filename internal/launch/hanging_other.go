//go:build !linux

package launch

func isFirstThread() bool { return false }
