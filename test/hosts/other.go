//go:build !linux

package hosts

import (
	"errors"
	"os"
)

const wireHeader = 0

func openWire(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// NoFiles exists on Linux only.
func (*Network) NoFiles(string, int, string) (mend func() error, err error) {
	return nil, errors.ErrUnsupported
}
