//go:build !linux

package process

// KeepImage does nothing here.
func KeepImage() {}
