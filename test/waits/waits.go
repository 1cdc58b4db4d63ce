// Package waits says how long tests wait for what comes for certain.
package waits

import (
	"fmt"
	"os"
	"time"
)

// Variable names the longest wait, as in 45s. Mutants are run with a short one: waiting in vain is most of what they cost.
const Variable = "LEADERRUN_TEST_PATIENCE"

// Patience is how long a test waits for what comes for certain: a time that only a hang exceeds, also on a busy machine that stands
// still now and then.
var Patience = atMost(5 * time.Minute)

// atMost is a time, or less where Variable says so.
func atMost(usual time.Duration) time.Duration {
	text := os.Getenv(Variable)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		panic(fmt.Sprintf("%s: %q is no time like 45s", Variable, text))
	}
	return min(usual, d)
}
