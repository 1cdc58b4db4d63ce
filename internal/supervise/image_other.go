//go:build !linux

package supervise

// KeepImage does nothing here.
func KeepImage() {}
