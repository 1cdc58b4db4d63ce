//go:build !linux && !darwin && !freebsd && !dragonfly

package filefence

import (
	"fmt"
	"runtime"
)

// volumeOf cannot tell here, so every directory is refused.
func volumeOf(dir string) (string, error) {
	return "", misconfigured(fmt.Errorf("on %s it is not known how to tell the file system of %s", runtime.GOOS, dir), "")
}
