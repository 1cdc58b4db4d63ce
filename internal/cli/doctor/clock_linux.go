package doctor

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/checkup"
)

// synchronised asks the kernel about its clock (adjtimex(2)), which changes nothing.
func synchronised(f *checkup.Findings) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	judgeClock(f, state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, time.Duration(t.Maxerror)*time.Microsecond, err)
}
