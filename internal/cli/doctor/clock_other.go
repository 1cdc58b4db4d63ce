//go:build !linux

package doctor

import (
	"errors"

	"github.com/leaderrun/leaderrun/internal/checkup"
)

// synchronised cannot tell here.
func synchronised(f *checkup.Findings) {
	judgeClock(f, false, 0, errors.New("not asked on this system"))
}
