//go:build !linux

package process

// giveBack does nothing here.
func giveBack() {}
