//go:build !linux

package flock

import (
	"errors"
	"os"
	"runtime"
)

// Holders cannot tell here.
func Holders(int, ...string) (pids []int, hidden bool, err error) {
	return nil, false, errors.New(runtime.GOOS + " does not tell: only on Linux can they be found")
}

// Shown always says no here.
func Shown(*os.File) (bool, error) { return false, nil }
