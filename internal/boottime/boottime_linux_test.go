package boottime

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// slept is how long a machine was suspended, as its time namespace says (time_namespaces(7)).
const slept = 100000 * time.Second

// roleEnv makes the test binary say what its clock shows, and once more when a timer told it so.
const roleEnv = "LEADERRUN_BOOTTIME_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		begun := Now()
		timer, err := NewTimer()
		if err != nil {
			panic(err)
		}
		timer.Set(begun.Add(time.Millisecond))
		<-timer.C()
		fmt.Println(int64(begun), int64(Now()))
		return
	}
	os.Exit(m.Run())
}

// A lease goes on running out while the machine sleeps, and Go's own clocks stand still (golang/go#24595). Where the
// machine has slept, the time since boot is more than they tell, and a timer for it rings.
func TestClockGoesOnWhileTheMachineSleeps(t *testing.T) {
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "a time namespace needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := Now()
	cmd := exec.CommandContext(t.Context(), "unshare", "--time", "--boottime", fmt.Sprint(int(slept.Seconds())), self)
	cmd.Env = append(os.Environ(), roleEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after := Now()
	var begun, rang Instant
	if _, err := fmt.Sscan(string(out), &begun, &rang); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if begun < before.Add(slept) || rang < begun.Add(time.Millisecond) || rang > after.Add(slept) {
		t.Errorf("between %d and %d, a machine that has slept for %v shows %d, and a timer for a millisecond later rings at %d", before, after, slept, begun, rang)
	}
}
