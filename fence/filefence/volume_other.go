//go:build !linux && !darwin && !freebsd && !dragonfly

package filefence

import (
	"runtime"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// volumeOf cannot tell here, so every directory is refused.
func volumeOf(dir string) (string, error) {
	return "", remedy.Misconfigured("", "on %s it is not known how to tell the file system of %s", runtime.GOOS, dir)
}
