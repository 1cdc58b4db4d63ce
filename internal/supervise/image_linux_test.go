package supervise

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTheBeginningOfTheProgramStaysInMemory(t *testing.T) {
	KeepImage()
	maps, err := os.ReadFile("/proc/self/smaps")
	must(t, err)
	own := false
	for line := range strings.Lines(string(maps)) {
		switch fields := strings.Fields(line); {
		case strings.Contains(fields[0], "-"):
			own = fields[len(fields)-1] == self(t) && fields[1] == "r--s" && fields[2] == "00000000"
		case own && fields[0] == "VmFlags:" && slices.Contains(fields, "lo"): // "Locked:" shows only our share of the page
			return
		}
	}
	t.Error("it is not locked")
}
